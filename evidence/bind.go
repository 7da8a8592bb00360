package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// maxPlaceholders bounds one template: each placeholder may cost a node.
const maxPlaceholders = 200

// bound is a bind request that passed the rules.
type bound struct {
	parts  []templatePart
	text   string
	names  []string // placeholders in order of first use, those inside specs included
	values map[string]Value
}

// Bind makes an atomic claim, or says why not.
func (c *Cell) Bind(r BindRequest) (id, text string, refusal *Refusal) {
	if refusal = c.open("bind"); refusal != nil {
		return "", "", refusal
	}
	b, refusal := c.g.checkBind(r)
	if refusal == nil {
		refusal = c.g.room(3*len(b.names) + 1)
	}
	if refusal != nil {
		return "", "", c.refuse("bind", refusal)
	}
	grounds := c.grounds(r, b)
	id = c.g.addAtomic(c.turn, c.next, r, b, grounds)
	return id, b.text, nil
}

// open is the check that comes before any rule of a primitive.
func (c *Cell) open(primitive string) *Refusal {
	if c.ended {
		return c.refuse(primitive, refuse("cell_ended", "The cell of this call has ended; call %s in the next cell.", primitive))
	}
	c.enter()
	return nil
}

func refuse(rule, format string, args ...any) *Refusal {
	return &Refusal{Rule: rule, Message: fmt.Sprintf(format, args...)}
}

// refuse records a refusal for audit.
func (c *Cell) refuse(primitive string, r *Refusal) *Refusal {
	if len(c.g.refusals) < maxRefusals {
		c.g.refusals = append(c.g.refusals, Refused{
			Turn: c.turn, Primitive: primitive, Rule: r.Rule, Message: r.Message,
		})
	}
	return r
}

// room checks the caps before a claim and its value nodes are made.
func (g *Graph) room(nodes int) *Refusal {
	if len(g.claims) >= g.cfg.MaxClaims {
		return refuse("claim_limit", "The limit of %d claims is reached; submit the claims that you have.", g.cfg.MaxClaims)
	}
	if g.full(nodes) {
		return refuse("node_limit", "The evidence graph is full (%d nodes); submit the claims that you have.", g.cfg.MaxNodes)
	}
	return nil
}

// checkBind applies every rule that needs no provenance.
func (g *Graph) checkBind(r BindRequest) (*bound, *Refusal) {
	if strings.TrimSpace(r.Template) == "" {
		return nil, refuse("bind_empty_template", "The template is empty; write a sentence with placeholders, e.g. bind(\"The mean is {m:.2f}.\", m=mean).")
	}
	if len(r.Template) > 2*g.cfg.MaxClaimBytes {
		return nil, refuse("bind_claim_length", "The template is longer than %d bytes; split it into several claims.", 2*g.cfg.MaxClaimBytes)
	}
	parts, err := parseTemplate(r.Template)
	if err == errPositional {
		return nil, refuse("bind_positional", "Placeholders need names: write {m} and pass m=...")
	}
	if err != nil {
		return nil, refuse("bind_template_syntax", "The template is not a valid format string: %s.", err)
	}
	fields := topFields(parts)
	if len(fields) == 0 {
		return nil, refuse("bind_no_placeholder", "The template has no placeholder; put every value in one, e.g. bind(\"The mean is {m:.2f}.\", m=mean).")
	}
	b := &bound{parts: parts}
	for _, rule := range []func(*bound, BindRequest, []*templateField) *Refusal{
		g.checkLiterals, g.checkValues, g.checkFields, g.checkSpecs, g.checkTypes,
	} {
		if refusal := rule(b, r, fields); refusal != nil {
			return nil, refusal
		}
	}
	return b, nil
}

func (g *Graph) checkLiterals(b *bound, r BindRequest, _ []*templateField) *Refusal {
	if bad := badText(r.Template); bad != "" {
		return refuse("bind_characters", "The template holds %s; write it with plain characters.", bad)
	}
	return nil
}

// checkValues finds every placeholder's value and refuses values that no sentence can state.
func (g *Graph) checkValues(b *bound, r BindRequest, fields []*templateField) *Refusal {
	given := make(map[string]Value, len(r.Values))
	for _, v := range r.Values {
		switch v.Kind {
		case KindClaim:
			return refuse("bind_claim_value", "The value %s is a claim; bind data values, and use infer to build on claims.", short(v.Name))
		case KindTable:
			return refuse("bind_table_value", "The value %s is a whole table; bind a single number, text or short list taken from it.", short(v.Name))
		case KindNumber, KindBoolean, KindString, KindNone, KindDate, KindList, KindOther:
		default:
			return refuse("bind_value_kind", "The value %s is of a kind that can't be bound.", short(v.Name))
		}
		v.Name, v.Type, v.Repr = strings.ToValidUTF8(v.Name, "\uFFFD"), short(v.Type), bounded(v.Repr, 800)
		given[v.Name] = v
	}
	b.values = map[string]Value{}
	for _, f := range fields {
		for _, name := range append([]string{f.name}, f.nestedNames()...) {
			v, ok := given[name]
			if !ok {
				return refuse("bind_missing_value", "The placeholder {%s} has no value; pass %s=...", short(name), short(name))
			}
			if _, seen := b.values[name]; !seen {
				b.values[name] = v
				b.names = append(b.names, name)
			}
		}
	}
	if len(b.names) > maxPlaceholders || len(fields) > maxPlaceholders {
		return refuse("bind_too_many_placeholders", "The template has more than %d placeholders; split it into several claims.", maxPlaceholders)
	}
	return nil
}

// checkFields compares what the session rendered with the template's own fields and fills it in.
func (g *Graph) checkFields(b *bound, r BindRequest, fields []*templateField) *Refusal {
	if len(r.Fields) != len(fields) {
		return refuse("bind_fields", "The rendered fields do not match the template; call bind again with plain values.")
	}
	var text strings.Builder
	next := 0
	for _, part := range b.parts {
		if part.field == nil {
			text.WriteString(part.literal)
			continue
		}
		if r.Fields[next].Name != part.field.name {
			return refuse("bind_fields", "The rendered fields do not match the template; call bind again with plain values.")
		}
		text.WriteString(r.Fields[next].Text)
		next++
	}
	b.text = text.String()
	if strings.ToValidUTF8(b.text, "") != b.text {
		return refuse("bind_text_encoding", "A value renders as bytes that are not UTF-8; decode it first.")
	}
	if strings.TrimSpace(b.text) == "" {
		return refuse("bind_empty_text", "The claim's text is empty; write a sentence around the placeholder.")
	}
	if len(b.text) > g.cfg.MaxClaimBytes {
		return refuse("bind_claim_length", "The claim is longer than %d bytes; bind a shorter value or split it into several claims.", g.cfg.MaxClaimBytes)
	}
	return nil
}

// checkSpecs refuses format specs through which digits enter that come from no value.
func (g *Graph) checkSpecs(b *bound, _ BindRequest, fields []*templateField) *Refusal {
	for _, f := range fields {
		for _, name := range f.nestedNames() {
			if b.values[name].Kind != KindNumber {
				return refuse("bind_nested_spec", "{%s} stands inside a format spec and must be a number (width or precision).", short(name))
			}
		}
		digits := func(name string) string {
			return strings.Join(words(b.values[name].Repr), " ")
		}
		if f.printsDigits(b.values[f.name].Kind, digits) {
			return refuse("bind_spec_digits", "The format of {%s} prints digits of its own; use a plain format such as {%s:.2f}.", short(f.name), short(f.name))
		}
	}
	return nil
}

// ownType is how the session names a type that its own code made, whatever the type says of itself.
const ownType = "__main__."

// checkTypes refuses objects of the trajectory's own types that render numbers: such a type decides
// itself what it renders, so the text says nothing about the data that the object was made from. An
// object of a library's that is none of the plain kinds has to give up a plain value just as well.
func (g *Graph) checkTypes(b *bound, r BindRequest, fields []*templateField) *Refusal {
	for i, f := range fields {
		v := b.values[f.name]
		own := strings.HasPrefix(v.Type, ownType)
		if (own || v.Kind == KindOther) && boundNumber("", r.Fields[i].Text) {
			return refuse("bind_own_type", "The value %s is a %s, which renders numbers in a way of its own; bind a plain number, e.g. %s=float(...).",
				short(f.name), short(strings.TrimPrefix(v.Type, ownType)), short(f.name))
		}
	}
	return nil
}

// bounded is short with a limit of its own, for text that the session cut already.
func bounded(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// addAtomic adds the claim with its ground edges.
func (g *Graph) addAtomic(turn, statement int, r BindRequest, b *bound, grounds []input) string {
	node := Node{
		ID: g.claimID(), Kind: NodeAtomic, Turn: turn, Statement: statement,
		Template: r.Template, Fields: slices.Clone(r.Fields), Text: b.text,
		NewNumbers: g.atomicNewNumbers(b, r.Fields),
		Given:      g.given(b, r.Fields),
	}
	for _, name := range b.names {
		node.Values = append(node.Values, b.values[name])
	}
	if len(node.NewNumbers) > 0 && g.cfg.NumberRule != NumberAllow {
		g.flag("number_flagged:" + node.ID)
	}
	g.claims[node.ID] = g.add(node, grounds)
	return node.ID
}

func (g *Graph) claimID() string { return fmt.Sprintf("c%d", len(g.claims)+1) }

// atomicNewNumbers are the numbers of the text whose digits stand in the template itself.
func (g *Graph) atomicNewNumbers(b *bound, fields []Field) []string {
	inField := make([]bool, 0, len(b.text))
	var values []string
	next := 0
	for _, part := range b.parts {
		text := part.literal
		if part.field != nil {
			text = fields[next].Text
			values = append(values, text)
			next++
		}
		for range len(text) {
			inField = append(inField, part.field != nil)
		}
	}
	own := func(n number) bool {
		for i := n.start; i < n.end; i++ {
			if !inField[i] && significant(b.text[i]) {
				return true
			}
		}
		return false
	}
	return allRules.newNumbers(b.text, own, allRules.pool(values, "", b.text), g.task.given.excused())
}

// significant bytes of a number token are those that make its digits; a sign, a currency or a
// percent sign written beside a placeholder brings no number.
func significant(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// given are the placeholders all of whose rendered numbers stand in the question as they are.
func (g *Graph) given(b *bound, fields []Field) []string {
	var out []string
	for _, name := range b.names {
		ok, rendered := true, false
		for _, f := range fields {
			if f.Name == name {
				rendered = true
				ok = ok && givenRules.hasNumber(f.Text) &&
					len(givenRules.newNumbers(f.Text, nil, g.task.given.bound())) == 0
			}
		}
		if ok && rendered {
			out = append(out, name)
		}
	}
	return out
}
