package certificates

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// chainOf is n certificates in PEM.
func chainOf(t *testing.T, n int) []byte {
	t.Helper()
	var out []byte
	for i := range n {
		key := newKey(t)
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1))},
			&x509.Certificate{}, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// signing is a request with conditions, "Approved" or "Denied=False", and a certificate.
func signing(certificate []byte, list ...string) *certificatesv1.CertificateSigningRequest {
	c := &certificatesv1.CertificateSigningRequest{}
	c.Status.Certificate = certificate
	for _, text := range list {
		name, status, _ := strings.Cut(text, "=")
		if status == "" {
			status = "True"
		}
		c.Status.Conditions = append(c.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.RequestConditionType(name), Status: corev1.ConditionStatus(strings.TrimPrefix(status,
				"-"))})
	}
	return c
}

// Who approves sets conditions, who signs the certificate, once; what was said stays.
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#request-signing-process
func TestStatusOfSigningRequests(t *testing.T) {
	one, two := chainOf(t, 1), chainOf(t, 2)
	block, _ := pem.Decode(one)
	headed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"},
		Bytes: block.Bytes})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	const conditions, certificate = "status.conditions", "status.certificate: "
	const data = certificate + `Invalid value: "<certificate data>": `
	for name, c := range map[string]struct {
		was, is   *certificatesv1.CertificateSigningRequest
		approving bool
		want      string
	}{
		"approved": {signing(nil), signing(nil, "Approved"), true, ""},
		"approved by the signer": {signing(nil), signing(nil, "Approved"), false, conditions +
			": Forbidden: updates may not add a condition of type \"Approved\""},
		"denied by the signer": {signing(nil), signing(nil, "Denied"), false, conditions +
			": Forbidden: updates may not add a condition of type \"Denied\""},
		"failed by the signer": {signing(nil, "Approved"), signing(nil, "Approved", "Failed"), false, ""},
		"no longer approved": {signing(nil, "Approved"), signing(nil), true, conditions +
			": Forbidden: updates may not remove a condition of type \"Approved\""},
		"no longer denied": {signing(nil, "Denied"), signing(nil), false, conditions +
			": Forbidden: updates may not remove a condition of type \"Denied\""},
		"no longer failed": {signing(nil, "Failed"), signing(nil), true, conditions +
			": Forbidden: updates may not remove a condition of type \"Failed\""},
		"another is no longer there": {signing(nil, "Mine"), signing(nil), true, ""},
		"both":                       {signing(nil, "Approved"), signing(nil, "Approved", "Denied"), true, conditions},
		"signed":                     {signing(nil, "Approved"), signing(two, "Approved"), false, ""},
		"signed by who approves": {signing(nil, "Approved"), signing(one, "Approved"), true, certificate +
			"Forbidden: updates may not set certificate content"},
		"signed anew": {signing(one), signing(two), false, certificate +
			"Forbidden: updates may not modify existing certificate content"},
		"as signed": {signing(one), signing(one), true, ""},
		"nothing signed": {signing(one), signing(nil), false, data +
			"must contain at least one CERTIFICATE PEM block; " + certificate +
			"Forbidden: updates may not modify existing certificate content"},
		"headers": {signing(nil), signing(headed), false, data +
			"no PEM block headers are permitted"},
		"a key": {signing(nil), signing(append(one, key...)), false, data +
			`only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"`},
		"no certificate": {signing(nil), signing(broken), false, data + "x509: malformed certificate"},
		"broken before, broken now": {signing(broken), signing(key), false, certificate +
			"Forbidden: updates may not modify existing certificate content"},
		"no type": {signing(nil), signing(nil, "=True"), true, conditions +
			"[0].type: Required value"},
		"approved, but false": {signing(nil), signing(nil, "Approved=False"), true, conditions +
			"[0].status: Unsupported value: \"False\": supported values: \"True\""},
		"another, but false": {signing(nil), signing(nil, "Mine=False", "His=Unknown"), true, ""},
		"another status": {signing(nil), signing(nil, "Mine=Perhaps"), true, conditions +
			"[0].status: Unsupported value: \"Perhaps\": supported values: \"False\", \"True\", \"Unknown\""},
		"no status": {signing(nil), signing(nil, "Mine=-"), true, conditions +
			"[0].status: Required value"},
		"twice": {signing(nil), signing(nil, "Mine", "Mine"), true, conditions +
			"[1].type: Duplicate value: \"Mine\""},
	} {
		var texts []string
		for _, e := range validateStatus(c.is, c.was, c.approving) {
			texts = append(texts, e.Error())
		}
		got := strings.Join(texts, "; ")
		if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") || name != "both" &&
			len(got) != len(c.want) {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
	changed := signing(nil, "Approved")
	changed.Status.Conditions[0].Reason = "Other"
	errs := validateStatus(changed, signing(nil, "Approved"), false)
	if got := fmt.Sprint(errs); len(errs) != 1 || !strings.Contains(got,
		"status.conditions: Forbidden: updates may not "+
			"modify a condition of type \"Approved\"\n") {
		t.Errorf("another reason: got %s, want that it may not be modified", got)
	}
}

// The times of conditions: of a change the given or the server's, otherwise the one before.
func TestTimesOfConditions(t *testing.T) {
	old := signing(nil, "Approved", "Mine=False")
	was := metav1.NewTime(time.Unix(1e9, 0))
	for i := range old.Status.Conditions {
		old.Status.Conditions[i].LastTransitionTime, old.Status.Conditions[i].LastUpdateTime = was, was
	}
	c := signing(nil, "Approved", "Mine=True", "New")
	setConditionTimes(c, old)
	for i, kept := range []bool{true, false, false} {
		x := c.Status.Conditions[i]
		if got := x.LastTransitionTime.Equal(&was); got != kept || x.LastTransitionTime.IsZero() {
			t.Errorf("%s: got transition time %s, want it kept %v", x.Type, x.LastTransitionTime, kept)
		}
		if x.LastUpdateTime.IsZero() {
			t.Errorf("%s: no update time", x.Type)
		}
	}
}

// What kubectl shows.
func TestRequestStates(t *testing.T) {
	for want, c := range map[string]*certificatesv1.CertificateSigningRequest{
		"Pending": signing(nil), "Approved": signing(nil, "Approved"), "Denied": signing(nil, "Denied"),
		"Approved,Issued": signing([]byte("x"), "Approved"), "Approved,Failed": signing(nil, "Approved", "Failed"),
		"Denied,Issued": signing([]byte("x"), "Denied"),
	} {
		if got := requestState(&c.Status); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestShortestLifetime(t *testing.T) {
	c := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		ExpirationSeconds: new(int32(600))}}
	if got := validate(c).ToAggregate(); strings.Contains(fmt.Sprint(got), "expirationSeconds") {
		t.Errorf("ten minutes: got %v, want no error about it", got)
	}
}

// Names of a leaf that no client would take.
func TestNamesOfALeaf(t *testing.T) {
	const dots = "leaf certificate's DNSName should not "
	for name, want := range map[string]string{
		"example.com": "", "": "leaf certificate should not contain empty DNSName",
		"a..b": dots + "contain '..'", ".a": dots + "start or end with '.'", "a.": dots + "start or end with '.'",
	} {
		errs := validateLeafNames(&x509.Certificate{DNSNames: []string{name}}, field.NewPath("c"))
		if got := len(errs); got > 1 || want == "" && got > 0 || want != "" && (got == 0 || errs[0].Detail != want) {
			t.Errorf("%q: got %v, want %q", name, errs, want)
		}
	}
	for address, want := range map[string]bool{"a@example.com": true, "a": false} {
		errs := validateLeafNames(&x509.Certificate{EmailAddresses: []string{address}}, field.NewPath("c"))
		if got := len(errs) == 0; got != want {
			t.Errorf("%s: got %v, want accepted %v", address, errs, want)
		}
	}
}

// The times beside a certificate, each by itself, at their bounds and beyond.
func TestTimesBesideACertificate(t *testing.T) {
	const most = 24 * time.Hour
	for _, c := range []struct {
		name                                     string
		leafFrom, life, from, to, refresh, clock time.Duration
		want                                     string
	}{
		{"the shortest", 0, time.Hour, 0, time.Hour, 10 * time.Minute, 0, ""},
		{"the longest", 0, most, 0, most, most - 10*time.Minute, 0, ""},
		{"another beginning", time.Second, time.Hour, 0, time.Hour, 10 * time.Minute, 0,
			"status.notBefore: must be set " +
				"to the NotBefore time encoded in the leaf certificate"},
		{"another clock", 0, time.Hour, 0, time.Hour, 10 * time.Minute, 5 * time.Minute,
			"status.notBefore: must be set " +
				"to within 5 minutes of kube-apiserver's current time"},
		{"nearly another clock", 0, time.Hour, 0, time.Hour, 10 * time.Minute, 5*time.Minute - 1, ""},
		{"another end", 0, time.Hour, 0, 2 * time.Hour, 10 * time.Minute, 0,
			"status.notAfter: must be set to the NotAfter " +
				"time encoded in the leaf certificate"},
		{"too short", 0, time.Hour - 1, 0, time.Hour - 1, 10 * time.Minute, 0,
			"status.certificateChain: leaf certificate " +
				"lifetime must be >= 1 hour"},
		{"too long", 0, most + 1, 0, most + 1, 10 * time.Minute, 0,
			"status.certificateChain: leaf certificate lifetime " +
				"must be <= spec.maxExpirationSeconds (86400)"},
		{"refreshed early", 0, time.Hour, 0, time.Hour, 10*time.Minute - 1, 0,
			"status.beginRefreshAt: must be at least 10 " +
				"minutes after status.notBefore"},
		{"refreshed late", 0, time.Hour, 0, time.Hour, 50*time.Minute + 1, 0,
			"status.beginRefreshAt: must be at least 10 " +
				"minutes before status.notAfter"},
	} {
		at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
		r := &certificatesv1.PodCertificateRequest{Spec: certificatesv1.PodCertificateRequestSpec{
			MaxExpirationSeconds: new(int32(most / time.Second))}}
		r.Status.NotBefore, r.Status.NotAfter, r.Status.BeginRefreshAt = at(c.from), at(c.to), at(c.refresh)
		leaf := &x509.Certificate{NotBefore: noon.Add(c.leafFrom), NotAfter: noon.Add(c.leafFrom + c.life)}
		got := ""
		for _, e := range timesFit(r, leaf, noon.Add(c.clock)) {
			got += e.Field + ": " + e.Detail
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
