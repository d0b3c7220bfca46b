package podcertificate

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A first certificate is waited for; a later one is asked for in time, and the old one used until
// its end.
func TestNext(t *testing.T) {
	held := func(refresh, expires time.Duration) *credential {
		return &credential{refresh: noon.Add(refresh), expires: noon.Add(expires)}
	}
	created := func(ago time.Duration, seen bool) *request {
		return &request{name: "req-p-1", createdAt: noon.Add(-ago), seen: seen}
	}
	for _, c := range []struct {
		name  string
		s     state
		want  step
		words string
	}{
		{"nothing yet", state{}, step{create: true}, ""},
		{"asked", state{request: created(3*time.Second, true)}, step{},
			"waiting for signer s/x to answer PodCertificateRequest n/req-p-1, made 3s ago"},
		{"asked, not seen yet", state{request: created(time.Second, false)}, step{}, "waiting for signer"},
		{"asked, cleaned up", state{request: created(16*time.Minute, false)}, step{create: true}, ""},
		{"refused", state{refused: "no"}, step{}, "no"},
		{"good", state{credential: held(time.Hour, 2*time.Hour)}, step{useCurrent: true, checkAt: noon.Add(time.Hour)},
			""},
		{"due", state{credential: held(0, time.Hour)},
			step{useCurrent: true, create: true, checkAt: noon.Add(retryDelay)}, ""},
		{"due, asked", state{credential: held(0, time.Hour), request: created(time.Second, true)},
			step{useCurrent: true, checkAt: noon.Add(retryDelay)}, ""},
		{"due, asked in vain", state{credential: held(0, time.Hour), request: created(time.Hour, false)},
			step{useCurrent: true, create: true, checkAt: noon.Add(retryDelay)}, ""},
		{"due, refused a moment ago", state{credential: held(0, time.Hour), refused: "no", retryAfter: noon.Add(1)},
			step{useCurrent: true, checkAt: noon.Add(retryDelay)}, ""},
		{"due, refused long ago", state{credential: held(0, time.Hour), refused: "no", retryAfter: noon},
			step{useCurrent: true, create: true, checkAt: noon.Add(retryDelay)}, ""},
		{"ended", state{credential: held(-time.Hour, 0)}, step{create: true, checkAt: noon.Add(retryDelay)},
			"the certificate ended at 2026-01-01T12:00:00Z: a new one is asked for"},
		{"ended, refused", state{credential: held(-time.Hour, 0), refused: "no", retryAfter: noon.Add(1)},
			step{checkAt: noon.Add(retryDelay)}, "the certificate ended at 2026-01-01T12:00:00Z: no"},
	} {
		got := decide(c.s, "s/x", "n", noon)
		words := got.err
		got.err = ""
		if got != c.want || !strings.HasPrefix(words, c.words) || (words == "") != (c.words == "") {
			t.Errorf("%s: %+v %q, want %+v %q", c.name, got, words, c.want, c.words)
		}
	}
}

// The key that was asked with is used when its certificate comes, and not before; what stands
// between certificates is dropped.
func TestAnswer(t *testing.T) {
	r := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"},
		Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "s/x"}}
	s := state{credential: &credential{key: []byte("old")}, request: &request{key: []byte("new")}}
	if applyAnswer(&s, r, noon); s.request == nil || string(s.credential.key) != "old" {
		t.Errorf("without an answer: %+v", s)
	}
	const one = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
	r.Status = certificatesv1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{Type: "Issued"}}, CertificateChain: "leaf:\n" + one + "next:\n" + one,
		BeginRefreshAt: &metav1.Time{Time: noon.Add(1)}, NotAfter: &metav1.Time{Time: noon.Add(2)},
	}
	if applyAnswer(&s, r, noon); s.request != nil || string(s.credential.key) != "new" ||
		string(s.credential.chain) != one+one || !s.credential.refresh.Equal(noon.Add(1)) ||
		!s.credential.expires.Equal(noon.Add(2)) {
		t.Errorf("issued: %+v", s)
	}
	s.request = &request{}
	r.Status.Conditions = []metav1.Condition{{Type: "Failed", Reason: "R", Message: "M"}}
	if applyAnswer(&s, r, noon); s.request != nil || string(s.credential.key) != "new" ||
		s.refused != "signer s/x could not fulfil PodCertificateRequest n/r: R: M" ||
		!s.retryAfter.Equal(noon.Add(retryDelayAfterDenial)) {
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
