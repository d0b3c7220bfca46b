package kinds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Outcome is how a case was answered; Difference is empty if as upstream did.
type Outcome struct{ Name, Difference string }

// Replay answers the requests of a recording.
func (r *Registry) Replay(rec *Recording) ([]Outcome, error) {
	base := []byte(rec.Seed)
	var seed struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(base, &seed); err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("%s %s/%s", rec.What, strings.TrimPrefix(strings.TrimPrefix(rec.Path, "/api"), "s"),
		seed.Metadata.Name)
	q := Request{List: rec.Path, Name: seed.Metadata.Name, What: rec.What, DryRun: true, Body: base}
	if rec.What != "create" {
		if rec.Base.Code >= http.StatusBadRequest {
			return nil, nil // upstream refused the seed
		}
		stored, err := r.stored(rec, q)
		if err != nil {
			return []Outcome{{prefix, err.Error()}}, nil
		}
		base = stored
	}
	first, err := r.base(rec, q, base)
	if err != nil {
		return nil, err
	}
	out := []Outcome{{prefix, first}}
	names := map[string]int{}
	for i := range rec.Cases {
		c := &rec.Cases[i]
		name := prefix + " " + c.String()
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, names[name])
		}
		d, err := r.try(rec, c, q, base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, Outcome{name, d})
	}
	return out, nil
}

// stored creates what is changed, and gives it its status.
func (r *Registry) stored(rec *Recording, q Request) ([]byte, error) {
	if raw, err := r.Get(rec.Path, q.Name); err == nil {
		return raw, nil
	}
	q.What, q.DryRun = "create", false
	made, err := r.Do(q)
	if err != nil || made.Refused != nil {
		return nil, fmt.Errorf("the seed is not created: %v %w", made, err)
	}
	var seed, now map[string]any
	if err := json.Unmarshal(rec.Seed, &seed); err != nil {
		return nil, err
	}
	if seed["status"] != nil && r.parse(&Request{List: q.List, What: "status"}).storage != nil {
		if err := json.Unmarshal(made.Object, &now); err != nil {
			return nil, err
		}
		now["status"] = merge(now["status"], seed["status"])
		q.What = "status"
		if q.Body, err = json.Marshal(now); err != nil {
			return nil, err
		}
		if _, err := r.Do(q); err != nil {
			return nil, err
		}
	}
	return r.Get(rec.Path, q.Name)
}

// merge is a merge patch without nulls.
func merge(a, b any) any {
	x, ok := a.(map[string]any)
	y, also := b.(map[string]any)
	if !ok || !also {
		return b
	}
	for k, v := range y {
		x[k] = merge(x[k], v)
	}
	return x
}

// base compares the answer to the seed as it is, or the stored object.
func (r *Registry) base(rec *Recording, q Request, stored []byte) (string, error) {
	mask := NewMask(stored, r.now)
	got := Answer{Code: 200}
	if rec.What == "create" {
		res, err := r.Do(q)
		if err != nil {
			return "", err
		}
		if got = answerOf(res, mask); res.Refused != nil {
			return got.difference(&rec.Base), nil
		}
		stored = res.Object
	}
	content, err := mask.Content(stored)
	if err != nil {
		return "", err
	}
	if got.Delta, err = Delta(rec.Base.content(), content); err != nil {
		return "", err
	}
	return got.difference(&rec.Base), nil
}

// try compares the answer to a case.
func (r *Registry) try(rec *Recording, c *Case, q Request, base []byte) (string, error) {
	var err error
	if q.Body, err = Apply(base, c.Set); err != nil {
		return "", err
	}
	q.Table = c.Want.Cells != ""
	res, err := r.Do(q)
	if err != nil {
		return "", err
	}
	mask := NewMask(q.Body, r.now)
	got := answerOf(res, mask)
	if res.Refused == nil {
		content, err := mask.Content(res.Object)
		if err != nil {
			return "", err
		}
		if got.Delta, err = Delta(rec.Base.content(), content); err != nil {
			return "", err
		}
		if res.Table != nil {
			got.Cells = mask.Cells(res.Table)
		}
	}
	want := c.Want
	if rec.What != "create" && getsTimeAdded(q.Body) {
		got.Delta, want.Delta = withoutGeneration(got.Delta), withoutGeneration(want.Delta)
	}
	return got.difference(&want), nil
}

// getsTimeAdded says that the object is a DeviceTaintRule whose taint gets the present second as
// its timeAdded: the generation depends on whether the rule was made in this second.
func getsTimeAdded(body []byte) bool {
	var o struct {
		Kind string
		Spec struct{ Taint struct{ TimeAdded *string } }
	}
	return json.Unmarshal(body, &o) == nil && o.Kind == "DeviceTaintRule" && o.Spec.Taint.TimeAdded == nil
}

// withoutGeneration returns what Delta found but for the generation.
func withoutGeneration(delta []string) []string {
	return slices.DeleteFunc(slices.Clone(delta), func(d string) bool {
		return strings.HasPrefix(d, ".metadata.generation")
	})
}

func answerOf(res *Result, m Mask) Answer {
	var out Answer
	if res.Refused != nil {
		out = Refusal(res.Refused, m)
	}
	for _, w := range res.Warnings {
		if w = m.Text(w); !slices.Contains(out.Warnings, w) { // a response has a warning once
			out.Warnings = append(out.Warnings, w)
		}
	}
	return out
}

// difference says how an answer differs from what was wanted.
func (a *Answer) difference(want *Answer) string {
	var out []string
	add := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			out = append(out, fmt.Sprintf("%s\n  got  %s\n  want %s", what, g, w))
		}
	}
	refused := 0
	if want.Code >= 400 {
		refused = want.Code
	}
	if a.Code < 400 {
		a.Code = 0
	}
	add("code", a.Code, refused)
	add("findings", strings.Join(ordered(a.Findings), "\n       "), strings.Join(ordered(want.Findings), "\n       "))
	if want.Code != http.StatusConflict {
		add("message", a.Message, want.Message)
	}
	warned := slices.DeleteFunc(slices.Clone(want.Warnings), func(w string) bool {
		return strings.Contains(w, " is deprecated in v1.") // of versions: the handlers' part
	})
	add("warnings", strings.Join(a.Warnings, "\n       "), strings.Join(warned, "\n       "))
	add("object", strings.Join(a.Delta, "\n       "), strings.Join(want.Delta, "\n       "))
	add("cells", a.Cells, want.Cells)
	return strings.Join(out, "\n")
}

// ordered sorts neighbouring findings about one map: the library goes through maps in Go's random
// order.
func ordered(findings []string) []string {
	out := slices.Clone(findings)
	for from := 0; from < len(out); {
		of, _, _ := strings.Cut(out[from], ": ")
		_, of, _ = strings.Cut(of, " ")
		to := from + 1
		for to < len(out) && strings.Contains(out[to], " "+of+": ") {
			to++
		}
		slices.Sort(out[from:to])
		from = to
	}
	return out
}

// String names what a case changes.
func (c *Case) String() string {
	var out []string
	for _, s := range c.Set {
		at := ""
		for _, p := range s.Path {
			if i, ok := p.(float64); ok {
				at += fmt.Sprintf("[%v]", i)
			} else {
				at += fmt.Sprintf(".%v", p)
			}
		}
		value := string(s.Value)
		if s.Value == nil {
			value = "nothing"
		}
		if len(value) > 60 {
			value = value[:60] + "…"
		}
		out = append(out, strings.TrimPrefix(at, ".")+"="+value)
	}
	return strings.Join(out[max(0, len(out)-3):], " ")
}
