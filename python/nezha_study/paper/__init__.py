"""`nezha study paper`: the evaluation of the Nezha paper (arXiv 2405.17870), repeated in labs of this
machine.

    data/published.json  every number that the paper prints, with its unit and its place
    jobs, store, run     what has to be measured, what has been, and measuring it
    fig5, ...            one figure or table each: from measurements to a Section
    pages                Sections as a page of HTML and one of Markdown
"""
