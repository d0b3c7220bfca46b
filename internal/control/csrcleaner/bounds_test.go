package csrcleaner

import (
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A request against the rule in words: a day from its creation; once it is answered, an hour from
// the earliest answer that counts; never beyond its certificate.
func TestTimeLeftOfAllRequests(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hours := func(n int) metav1.Time { return metav1.NewTime(created.Add(time.Duration(n) * time.Hour)) }
	type condition = certificatesv1.CertificateSigningRequestCondition
	end := hours(30).Time
	chains := map[string][]byte{"none": nil, "no PEM": []byte("x"),
		"no certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"until 30":       certificate(t, end)}
	var answers []condition
	for _, kind := range []certificatesv1.RequestConditionType{"Approved", "Denied", "Failed"} {
		for _, status := range []corev1.ConditionStatus{"", "True", "False", "Unknown"} {
			for _, at := range []metav1.Time{{}, hours(1), hours(29), hours(40)} {
				answers = append(answers, condition{Type: kind, Status: status, LastUpdateTime: at})
			}
		}
	}
	for what, chain := range chains {
		for i := range answers {
			for k := range answers {
				r := &certificatesv1.CertificateSigningRequest{}
				r.CreationTimestamp = hours(0)
				r.Status.Certificate, r.Status.Conditions = chain, []condition{answers[i], answers[k]}
				until := hours(24).Time
				var answered []time.Time
				for _, c := range r.Status.Conditions {
					yes := c.Status == "" || c.Status == "True"
					if yes && !c.LastUpdateTime.IsZero() && (c.Type != "Approved" || len(chain) > 0) {
						answered = append(answered, c.LastUpdateTime.Add(time.Hour))
					}
				}
				if len(answered) > 0 {
					until = answered[0]
				}
				if len(answered) > 1 && answered[1].Before(until) {
					until = answered[1]
				}
				if what == "until 30" && end.Before(until) {
					until = end
				}
				for _, now := range []time.Time{created, until.Add(-time.Second), until, until.Add(time.Hour)} {
					want := max(until.Sub(now), 0)
					if got := TimeLeft(r, now); got != want {
						t.Fatalf("%s, %+v at %s: got %s, want %s", what, r.Status.Conditions, now, got, want)
					}
				}
			}
		}
	}
	pod := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: hours(0)}}
	got := fmt.Sprint(PodRequestTimeLeft(pod, created), PodRequestTimeLeft(pod, created.Add(15*time.Minute-1)),
		PodRequestTimeLeft(pod, created.Add(time.Hour)))
	if want := "15m0s 1ns 0s"; got != want {
		t.Errorf("a Pod's: got %s, want %s", got, want)
	}
}
