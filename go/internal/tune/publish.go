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
	var bound, target, interval time.Duration
	if s.lenient == 0 {
		bound = n.HoldBound
	}
	if c.Overload == "codel" {
		target, interval = c.TargetDelay, c.Interval
	}
	limit := s.divide()
	store(p.ElderLimit(), s.elder, p.StoreElderLimit)
	store(p.NewestGeneration(), uint64(s.newest), p.StoreNewestGeneration)
	store(p.Limit(), limit, p.StoreLimit)
	store(p.MaxHeld(), uint64(c.MaxHeld), p.StoreMaxHeld)
	store(p.HoldBudgetNS(), word(c.HoldBudget), p.StoreHoldBudgetNS)
	store(p.HoldBoundNS(), word(bound), p.StoreHoldBoundNS)
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

// divide gives the newest data plane what the older ones leave of the limit, but no less than the
// least that it may be. What each of those may have only falls, towards what it has; it falls
// gently, since every connection that is open may bring one more request.
func (s *Service) divide() uint64 {
	taken, most := uint64(0), uint64(0)
	for _, p := range s.planes {
		if p.generation < s.newest {
			inflight := p.counters.Inflight()
			taken += inflight
			most = max(most, inflight+p.counters.Held())
		}
	}
	fallen := s.elder - (s.elder+elderFall-1)/elderFall
	s.elder = max(min(s.elder, max(most, fallen)), 1)
	limit := s.numbers.Limit
	return max(limit-min(taken, limit), min(limit, uint64(s.config.MinLimit)), 1)
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
