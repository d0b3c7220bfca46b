package resourcedef_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func messages(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return strings.Join(out, "; ")
}

// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#signers
func TestSignerNames(t *testing.T) {
	at := field.NewPath("spec", "signerName")
	label := strings.Repeat("a", 63)
	longest := strings.Join([]string{label, label, label, label[:61]}, ".") // 253
	const invalid, form = "spec.signerName: Invalid value: ", "must be a fully qualified domain and path of the form " +
		"'example.com/signer-name'"
	for name, want := range map[string]string{
		"example.com/signer":    "",
		"a.b/c.d":               "",
		longest + "/x":          "",
		longest + "/" + longest: "",
		"":                      "spec.signerName: Required value",
		"kubernetes.io/legacy-unknown": invalid + `"kubernetes.io/legacy-unknown": the legacy signerName is ` +
			`not allowed`,
		"kubernetes.io/legacy-unknown-too": "",
		"example.com":                      invalid + `"example.com": ` + form,
		"example.com/a/b":                  invalid + `"example.com/a/b": ` + form,
		"example/a":                        invalid + `"example": should be a domain with at least two segments`,
		"Exa_mple.com/a":                   invalid + `"Exa_mple.com": validating label "Exa_mple": `,
		"example.com/A_b":                  invalid + `"A_b": validating label "A_b": `,
		"example.com/":                     invalid + `"": validating label "": `,
		"a" + longest + "/x":               "spec.signerName: Too long: may not be more than 253 bytes; ",
		longest + ".a/x":                   "spec.signerName: Too long: may not be more than 253 bytes",
	} {
		got := messages(resourcedef.ValidateSignerName(name, at))
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: got  %q\nwant %q", name, got, want)
		}
	}
	// of two bad segments the first is told alone, of a bad domain and a bad path both
	got := resourcedef.ValidateSignerName("A.B.c/D", at)
	if s := messages(got); len(got) != 2 || !strings.Contains(s, `validating label "A"`) || strings.Contains(s,
		`validating label "B"`) || !strings.Contains(s, `validating label "D"`) {
		t.Errorf("got %d errors: %s, want one of the domain and one of the path", len(got), s)
	}
	most := strings.Repeat("a", 571-len("example.com/"))
	for extra, want := range map[string]bool{"": false, "a": true} {
		s := messages(resourcedef.ValidateSignerName("example.com/"+most+extra, at))
		if got := strings.Contains(s, "Too long: may not be more than 571 bytes"); got != want {
			t.Errorf("%d bytes more than the longest: got %s, want too long %v", len(extra), s, want)
		}
	}
}

// KEP-4317.
func TestPodCertificateLifetimes(t *testing.T) {
	at := field.NewPath("max")
	const other, builtIn, close = "example.com/s", "kubernetes.io/kube-apiserver-client-pod", "kubernetes.iox/s"
	const day, most = 24 * 3600, 91 * 24 * 3600
	for _, c := range []struct {
		seconds int32
		signer  string
		want    string
	}{
		{3600, other, ""}, {3599, other, "3599: if provided, maxExpirationSeconds must be >= 3600"},
		{most, other, ""}, {most + 1, other, "7862401: if provided, maxExpirationSeconds must be <= 7862400"},
		{3600, builtIn, ""}, {day, builtIn, ""},
		{day + 1, builtIn, "86401: if provided, maxExpirationSeconds must be <= 86400"},
		{day + 1, close, ""},
	} {
		want := c.want
		if want != "" {
			want = "max: Invalid value: " + want
		}
		if got := messages(resourcedef.ValidatePodCertificateLifetime(c.seconds, c.signer, at)); got != want {
			t.Errorf("%d s of %s: got %q, want %q", c.seconds, c.signer, got, want)
		}
	}
}

func TestSignerAnnotations(t *testing.T) {
	at := field.NewPath("a")
	if got := messages(resourcedef.ValidateSignerAnnotations(map[string]string{"example.com/K": "v"}, at)); got != "" {
		t.Errorf("a key in upper case: got %s, want it accepted", got)
	}
	got := resourcedef.ValidateSignerAnnotations(map[string]string{"c": "", "b": "", "example.com/x": ""}, at)
	if s := messages(got); len(got) != 2 || strings.Index(s, `"b"`) > strings.Index(s, `"c"`) {
		t.Errorf("keys without a domain: got %s, want b's error, then c's", s)
	}
	for n, want := range map[int]string{262144 - 13: "",
		262144 - 12: "a: Too long: may not be more than 262144 bytes"} {
		m := map[string]string{"example.com/x": strings.Repeat("v", n)}
		if got := messages(resourcedef.ValidateSignerAnnotations(m, at)); got != want {
			t.Errorf("a value of %d bytes: got %q, want %q", n, got, want)
		}
	}
}

func TestPathSegmentNames(t *testing.T) {
	for _, c := range []struct {
		name   string
		prefix bool
		want   bool
	}{{"system:a b", false, true}, {"..", false, false}, {".", false, false}, {"a/b", false, false},
		{"a%b", false, false}, {"..", true, true}, {"a/b", true, false}} {
		if got := resourcedef.ValidatePathSegmentName(c.name, c.prefix); (len(got) == 0) != c.want {
			t.Errorf("%q as prefix %v: got %v, want valid %v", c.name, c.prefix, got, fmt.Sprint(c.want))
		}
	}
}
