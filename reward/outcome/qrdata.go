package outcome

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// QRData returns the rule of one question type (eval.py of xxxiaol/QRData).
//
// Official takes the first digits of the text for the answer, so that "1,510" is 1 and "5 to 7" is 5; no
// answer can equal a reference of 0, since the bounds of 3 % are open; and a choice is right by its first
// letters, "no" for "none" and "not known". Fixed reads one number within 3 %, and the whole choice.
func QRData(questionType string) (Rule, error) {
	r := Rule{Name: SourceQRData + "/" + questionType}
	switch questionType {
	case "numerical":
		r.Official, r.Fixed = qrNumber, qrFixed
	case "multiple_choice":
		r.Official = func(got, want string) float64 {
			return truth(strings.HasPrefix(strings.ToLower(got), strings.ToLower(want)))
		}
		r.Fixed = func(got, want string) float64 { return truth(fold(got) == fold(want)) }
	default:
		return Rule{}, fmt.Errorf("qrdata: meta.question_type %q is neither numerical nor multiple_choice", questionType)
	}
	return r, nil
}

var qrNumeral = regexp.MustCompile(`-?\d+\.?\d*%?`)

// qrShare is the tolerance of 3 %.
var qrShare = big.NewRat(3, 100)

func qrNumber(got, want string) float64 {
	g, ok := qrRead(qrNumeral.FindString(got))
	w, number := qrRead(want)
	if !ok || !number {
		return 0
	}
	limit := new(big.Rat).Mul(qrShare, new(big.Rat).Abs(w))
	return truth(new(big.Rat).Abs(new(big.Rat).Sub(g, w)).Cmp(limit) < 0)
}

func qrRead(s string) (*big.Rat, bool) {
	q, ok := readPlain(strings.Replace(s, ".%", "%", 1))
	if !ok {
		if q, ok = readPlain(strings.TrimSuffix(s, ".")); !ok {
			return nil, false
		}
	}
	return q.fraction(), true
}

func qrFixed(got, want string) float64 {
	w, number := readQuantity(want)
	g, ok := readQuantity(got)
	if !number || !ok {
		return 0
	}
	for _, wv := range w.readings(g) {
		for _, gv := range g.readings(w) {
			if within(gv, wv, new(big.Rat).Mul(qrShare, new(big.Rat).Abs(wv))) {
				return 1
			}
		}
	}
	return 0
}
