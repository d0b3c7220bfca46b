package podcert

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A first certificate is waited for; a later one is asked for in time, and the old one used until its end.
func TestNext(t *testing.T) {
	held := func(refresh, expires time.Duration) *credential {
		return &credential{refresh: noon.Add(refresh), expires: noon.Add(expires)}
	}
	asked := func(ago time.Duration, seen bool) *request {
		return &request{name: "req-p-1", made: noon.Add(-ago), seen: seen}
	}
	for _, c := range []struct {
		name  string
		s     state
		want  step
		words string
	}{
		{"nothing yet", state{}, step{ask: true}, ""},
		{"asked", state{asked: asked(3*time.Second, true)}, step{}, "waiting for signer s/x to answer PodCertificateRequest n/req-p-1, made 3s ago"},
		{"asked, not seen yet", state{asked: asked(time.Second, false)}, step{}, "waiting for signer"},
		{"asked, cleaned up", state{asked: asked(16*time.Minute, false)}, step{ask: true}, ""},
		{"refused", state{refused: "no"}, step{}, "no"},
		{"good", state{held: held(time.Hour, 2*time.Hour)}, step{use: true, at: noon.Add(time.Hour)}, ""},
		{"due", state{held: held(0, time.Hour)}, step{use: true, ask: true, at: noon.Add(again)}, ""},
		{"due, asked", state{held: held(0, time.Hour), asked: asked(time.Second, true)}, step{use: true, at: noon.Add(again)}, ""},
		{"due, asked in vain", state{held: held(0, time.Hour), asked: asked(time.Hour, false)}, step{use: true, ask: true, at: noon.Add(again)}, ""},
		{"due, refused a moment ago", state{held: held(0, time.Hour), refused: "no", notYet: noon.Add(1)}, step{use: true, at: noon.Add(again)}, ""},
		{"due, refused long ago", state{held: held(0, time.Hour), refused: "no", notYet: noon}, step{use: true, ask: true, at: noon.Add(again)}, ""},
		{"ended", state{held: held(-time.Hour, 0)}, step{ask: true, at: noon.Add(again)}, "the certificate ended at 2026-01-01T12:00:00Z: a new one is asked for"},
		{"ended, refused", state{held: held(-time.Hour, 0), refused: "no", notYet: noon.Add(1)}, step{at: noon.Add(again)}, "the certificate ended at 2026-01-01T12:00:00Z: no"},
	} {
		got := next(c.s, "s/x", "n", noon)
		words := got.err
		got.err = ""
		if got != c.want || !strings.HasPrefix(words, c.words) || (words == "") != (c.words == "") {
			t.Errorf("%s: %+v %q, want %+v %q", c.name, got, words, c.want, c.words)
		}
	}
}

// The key that was asked with is used when its certificate comes, and not before; what stands between certificates is dropped.
func TestAnswer(t *testing.T) {
	r := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "s/x"}}
	s := state{held: &credential{key: []byte("old")}, asked: &request{key: []byte("new")}}
	if answer(&s, r, noon); s.asked == nil || string(s.held.key) != "old" {
		t.Errorf("without an answer: %+v", s)
	}
	const one = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
	r.Status = certificatesv1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{Type: "Issued"}}, CertificateChain: "leaf:\n" + one + "next:\n" + one,
		BeginRefreshAt: &metav1.Time{Time: noon.Add(1)}, NotAfter: &metav1.Time{Time: noon.Add(2)},
	}
	if answer(&s, r, noon); s.asked != nil || string(s.held.key) != "new" || string(s.held.chain) != one+one || !s.held.refresh.Equal(noon.Add(1)) || !s.held.expires.Equal(noon.Add(2)) {
		t.Errorf("issued: %+v", s)
	}
	s.asked = &request{}
	r.Status.Conditions = []metav1.Condition{{Type: "Failed", Reason: "R", Message: "M"}}
	if answer(&s, r, noon); s.asked != nil || string(s.held.key) != "new" || s.refused != "signer s/x could not fulfil PodCertificateRequest n/r: R: M" || !s.notYet.Equal(noon.Add(afterRefusal)) {
		t.Errorf("failed: %+v", s)
	}
	for _, kind := range []string{"ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521", "RSA3072"} {
		if _, err := newKey(kind); err != nil {
			t.Error(err)
		}
	}
	if _, err := newKey("DSA"); err == nil {
		t.Error("a key of an unknown type")
	}
}
