package daemon

// verifyWeightMax is how many requests whose proofs take long a worker may have unanswered. What
// lies behind them in the lane waits for as many of about 100 µs.
const verifyWeightMax = 32

// weigh tells the data plane which sources' proofs take long. One that is not there yet does not.
func (p *plan) weigh() {
	p.snapshot.VerifyWeightMax = verifyWeightMax
	for _, s := range p.snapshot.Sources {
		if proof := p.proofs[s.Id].Load(); proof != nil && proof.Heavy() {
			s.VerifyWeight = 1
		}
	}
}
