"""All campaigns, in the order in which they run."""

from __future__ import annotations

from typing import List

from campaigns.campaign import Campaign
from campaigns.r01_kill import Kill, KillEncrypted, KillFabric, KillTagged
from campaigns.r02_black_hole import BlackHole, BlackHoleFabric
from campaigns.r04_large import ReturnLarge
from campaigns.r04_return import Return
from campaigns.r05_slow import Slow
from campaigns.r07_sigkill import SigKill
from campaigns.r08_sigstop import SigStop
from campaigns.r09_vanish import Vanish
from campaigns.r17_price import Price
from campaigns.r20_abort import Abort
from campaigns.r21_training import Training
from campaigns.r22_aggregator import Aggregator
from campaigns.r23_hosts import BlackHoleByHost, KillByHost, KillByLeaders, KillInMemory, StopInMemory
from campaigns.r24_outage import Outage
from campaigns.r25_kinds import BlackHoleKinds, KillKinds
from campaigns.s01_fuzz import Fuzz
from campaigns.s03_flood import Flood

CAMPAIGNS: List[Campaign] = [
    Kill(), KillEncrypted(), KillTagged(), KillFabric(), BlackHole(), BlackHoleFabric(), Return(),
    ReturnLarge(),
    Slow(), SigKill(), SigStop(), Vanish(), Abort(), Training(), Aggregator(),
    KillInMemory(), StopInMemory(), KillByHost(), KillByLeaders(), BlackHoleByHost(), Outage(),
    KillKinds(), BlackHoleKinds(), Price(),
    Flood(), Fuzz()]
