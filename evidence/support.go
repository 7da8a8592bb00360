package evidence

// Support is a judge's word on one derived claim: entailed or not, with its reason.
type Support struct {
	Entailed bool
	Reason   string
}

// ApplyVerdicts stores J of every submitted claim: true where it and all claims that it rests on are
// supported, false where one is not, nil where that is not known. An atomic claim is supported by its
// values, so by S and N. A derived claim is supported if a judge found that its premises entail it, and
// one that restates a premise if that premise is; verdicts hold no entry for what a judge abstained from or was not asked.
// It is pure and may be applied twice.
func (e *Export) ApplyVerdicts(verdicts map[string]Support) {
	v := e.view()
	e.Grounding = e.ComputeGrounding()
	for i := range e.Grounding {
		g := &e.Grounding[i]
		var why string
		g.Supported, why = v.supported(g, verdicts)
		if g.Why == "" {
			g.Why = why
		}
	}
}

// supported is S and N and all verdicts, each of which decides alone if it is no.
func (v *view) supported(g *ClaimGrounding, verdicts map[string]Support) (holds *bool, why string) {
	yes, no := true, false
	if isFalse(g.Structural) || isFalse(g.Lexical) {
		return &no, ""
	}
	open := false
	for _, at := range v.claimsBelow(v.index[g.Claim]) {
		n := &v.e.Nodes[at]
		if n.Kind != NodeDerived {
			continue
		}
		switch verdict, asked := verdicts[n.ID]; {
		case asked && !verdict.Entailed:
			return &no, n.ID + ": not entailed: " + short(verdict.Reason)
		case !asked && n.Restates == "":
			open = true
		}
	}
	if open {
		return nil, ""
	}
	return &yes, ""
}

// Rate is the Grounding Rate: the share of submitted claims for which S, R, N and J all hold; nil where
// nothing was submitted or a part did not run on some claim.
func Rate(claims []ClaimGrounding) *float64 {
	if len(claims) == 0 {
		return nil
	}
	held := 0
	for _, c := range claims {
		all := true
		for _, part := range []*bool{c.Structural, c.Replayed, c.Lexical, c.Supported} {
			if part == nil {
				return nil
			}
			all = all && *part
		}
		if all {
			held++
		}
	}
	rate := float64(held) / float64(len(claims))
	return &rate
}
