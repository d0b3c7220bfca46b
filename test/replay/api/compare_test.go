package api

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
)

// recorded makes the answer that a recording was made from, masks and all.
func recorded(t *testing.T, r Response) answer {
	t.Helper()
	a := answer{code: r.Code, headers: http.Header{}}
	for name, v := range r.Headers {
		switch v := v.(type) {
		case string:
			a.headers.Add(name, v)
		case []any:
			for _, x := range v {
				a.headers.Add(name, fmt.Sprint(x))
			}
		}
	}
	var err error
	switch {
	case r.BodyLines != nil:
		var b bytes.Buffer
		for _, l := range r.BodyLines {
			if err := json.NewEncoder(&b).Encode(l); err != nil {
				t.Fatal(err)
			}
		}
		a.body = b.Bytes()
	case r.BodyText != nil:
		a.body = []byte(*r.BodyText)
	case r.BodyPrefixHex != "":
		a.body, err = hex.DecodeString(r.BodyPrefixHex)
	case r.Body != nil:
		a.body, err = json.Marshal(r.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func families(t *testing.T) []Family {
	t.Helper()
	dir := "../../recordings/api"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the recordings are not here")
	}
	_, list, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every recorded answer is equal to itself.
func TestRecordingsEqualThemselves(t *testing.T) {
	n := 0
	for _, f := range families(t) {
		for _, c := range f.Cases {
			for _, x := range append([]Exchange{{c.Request, c.Response}}, c.Then...) {
				if x.Response.DecodedToken != nil || strings.HasPrefix(x.Request.Path, "/openapi/") {
					continue // recorded in a reduced form
				}
				n++
				if diffs, level := compareExchange(x, recorded(t, x.Response), c.ManagedFields == "kept"); level !=
					Same {
					t.Errorf("%s/%s: level %d, %v, want %v", f.Name, c.Name, level, diffs, Same)
				}
			}
		}
	}
	if n < 1600 {
		t.Errorf("%d answers were compared", n)
	}
}

func TestLevels(t *testing.T) {
	refused := Exchange{Response: Response{Code: 422, Body: map[string]any{"reason": "Invalid", "message": "m",
		"details": map[string]any{"causes": []any{map[string]any{"reason": "FieldValueRequired", "field": "spec.x",
			"message": "c"}}}}}}
	taken := Exchange{Response: Response{Code: 201, Body: map[string]any{"spec": map[string]any{"a": "b"}}}}
	for _, c := range []struct {
		name string
		x    Exchange
		code int
		body string
		want Level
	}{
		{"same", refused, 422,
			`{"reason":"Invalid","message":"m","details":{"causes":[{"reason":"FieldValueRequired","field":"spec.x",` +
				`"message":"c"}]}}`, Same},
		{"other message", refused, 422,
			`{"reason":"Invalid","message":"n","details":{"causes":[{"reason":"FieldValueRequired","field":"spec.x",` +
				`"message":"c"}]}}`, SameReason},
		{"other cause", refused, 422,
			`{"reason":"Invalid","message":"m","details":{"causes":[{"reason":"FieldValueRequired","field":"spec.y",` +
				`"message":"c"}]}}`, SameCode},
		{"other reason", refused, 422, `{"reason":"Bad"}`, Unequal},
		{"taken instead of refused", refused, 201, `{}`, Unequal},
		{"object equal", taken, 201, `{"spec":{"a":"b"}}`, Same},
		{"object differs", taken, 201, `{"spec":{"a":"c"}}`, SameCode},
	} {
		if _, level := compareExchange(c.x, answer{code: c.code, headers: http.Header{}, body: []byte(c.body)},
			false); level != c.want {
			t.Errorf("%s: level %d, want %d", c.name, level, c.want)
		}
	}
}

// Entries of managedFields are compared by manager: which comes first depends on the clock.
func TestOrderOfManagersIsNotCompared(t *testing.T) {
	object := func(managers ...string) any {
		var list []any
		for _, m := range managers {
			list = append(list, map[string]any{"manager": m, "operation": "Apply"})
		}
		return map[string]any{"metadata": map[string]any{"managedFields": list}}
	}
	a, b, other := object("x", "y"), object("y", "x"), object("y", "z")
	for _, v := range []any{a, b, other} {
		sortManagers(v)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got %v and %v, want the same order", a, b)
	}
	if reflect.DeepEqual(a, other) {
		t.Errorf("got %v for other managers, want a difference", other)
	}
	sortManagers("no object")
}
