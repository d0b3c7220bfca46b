package certcleaner

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// How long a request is kept, as upstream does: one that was answered from the answer on, others from their creation.
const (
	answered = time.Hour
	pending  = 24 * time.Hour
	ofPods   = 15 * time.Minute
)

// Left returns how long a CertificateSigningRequest may still stay; 0 is no longer. One whose certificate has run out goes at once.
func Left(r *certificatesv1.CertificateSigningRequest, now time.Time) time.Duration {
	until, done := r.CreationTimestamp.Add(pending), false
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue && c.Status != "" {
			continue
		}
		if c.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) == 0 {
			continue // a signer may still come
		}
		if c.LastUpdateTime.IsZero() {
			continue // as upstream: an answer without a time is no older than any
		}
		if at := c.LastUpdateTime.Add(answered); !done || at.Before(until) {
			until, done = at, true
		}
	}
	if end := runsOut(r.Status.Certificate); !end.IsZero() && end.Before(until) {
		until = end
	}
	return max(until.Sub(now), 0)
}

// runsOut is when the first certificate ends; zero without one.
func runsOut(chain []byte) time.Time {
	block, _ := pem.Decode(chain)
	if block == nil {
		return time.Time{}
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return c.NotAfter
}

// LeftOfPod returns how long a PodCertificateRequest may still stay: its kubelet has read the answer, or asks anew.
func LeftOfPod(r *certificatesv1.PodCertificateRequest, now time.Time) time.Duration {
	return max(r.CreationTimestamp.Add(ofPods).Sub(now), 0)
}
