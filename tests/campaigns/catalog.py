"""All campaigns, in the order in which they run."""

from __future__ import annotations

from typing import List

from campaigns.campaign import Campaign
from campaigns.r01_kill import Kill

CAMPAIGNS: List[Campaign] = [Kill()]
