"""`nezha demo`: three small clusters measured, and a network trained on them."""
