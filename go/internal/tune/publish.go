package tune

import (
	"math"
	"time"
)

// publish stores what changed; the caller holds the lock. policy_version is odd meanwhile, for who
// wants the words of one tick.
func (s *Service) publish() {
	p, n, c := s.control, &s.numbers, &s.config
	begun := false
	store := func(old, word uint64, write func(uint64)) {
		if old == word {
			return
		}
		if !begun {
			begun = true
			p.StorePolicyVersion(p.PolicyVersion() | 1)
		}
		write(word)
	}
	var target, interval time.Duration
	if c.Overload == "codel" {
		target, interval = c.TargetDelay, c.Interval
	}
	store(p.Limit(), n.Limit, p.StoreLimit)
	store(p.MaxHeld(), uint64(c.MaxHeld), p.StoreMaxHeld)
	store(p.HoldBudgetNS(), word(c.HoldBudget), p.StoreHoldBudgetNS)
	store(p.HoldBoundNS(), word(n.HoldBound), p.StoreHoldBoundNS)
	store(p.Growing(), truth(n.Growing), p.StoreGrowing)
	if n.ServiceTime > 0 { // until it is known, what was known before a restart is the better guess
		store(p.ServiceTimeNS(), word(n.ServiceTime), p.StoreServiceTimeNS)
	}
	store(p.FloorSlots(), n.FloorSlots, p.StoreFloorSlots)
	store(p.FloorRateMilli(), milli(n.FloorRate), p.StoreFloorRateMilli)
	store(p.RepeatShareMilli(), repeatShare, p.StoreRepeatShareMilli)
	store(p.ShareRateMilli(), milli(n.ShareRate), p.StoreShareRateMilli)
	store(p.CodelTargetNS(), word(target), p.StoreCodelTargetNS)
	store(p.CodelIntervalNS(), word(interval), p.StoreCodelIntervalNS)
	store(p.PaceIntervalNS(), word(n.PaceInterval), p.StorePaceIntervalNS)
	store(p.PaceDepthNS(), word(n.PaceDepth), p.StorePaceDepthNS)
	store(p.BaseLimitMilli(), milli(n.Base), p.StoreBaseLimitMilli)
	if v := p.PolicyVersion(); v%2 == 1 { // also where a writer died in the middle
		p.StorePolicyVersion(v + 1)
	}
}

func word(d time.Duration) uint64 { return uint64(max(d, 0)) }

// milli is a number in thousandths; what is above 0 stays so, since 0 is no bound.
func milli(v float64) uint64 {
	switch {
	case !(v > 0):
		return 0
	case v >= math.MaxInt64/1000:
		return math.MaxInt64
	}
	return max(uint64(math.Round(v*1000)), 1)
}

func truth(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}
