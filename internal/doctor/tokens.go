package doctor

// Token is a Secret of type kubernetes.io/service-account-token that gets no token, or whose token
// is refused.
type Token struct {
	Secret string // NAMESPACE/NAME
	Text   string // why
	Fix    string
}

// tokens names the Secrets whose token nobody writes.
func tokens(f Facts) []Finding {
	if f.Tokens == nil {
		return nil
	}
	var out []Finding
	for _, t := range f.Tokens {
		out = append(out, Finding{About: t.Secret, Level: Problem, Text: t.Text, Fix: t.Fix})
	}
	if out == nil {
		out = []Finding{{Text: "every Secret for a ServiceAccount's token has one"}}
	}
	return out
}
