package csrcleaner

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// How long a request is kept, as upstream: an answered one from its answer on, others from their
// creation.
const (
	approvedExpiration   = time.Hour
	pendingExpiration    = 24 * time.Hour
	podRequestExpiration = 15 * time.Minute
)

// TimeLeft returns how long to keep a CertificateSigningRequest; 0: delete it. One with an expired
// certificate is deleted at once.
func TimeLeft(r *certificatesv1.CertificateSigningRequest, now time.Time) time.Duration {
	until, done := r.CreationTimestamp.Add(pendingExpiration), false
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue && c.Status != "" {
			continue
		}
		if c.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) == 0 {
			continue // it may still be signed
		}
		if c.LastUpdateTime.IsZero() {
			continue // as upstream: an answer without a time counts as new
		}
		if at := c.LastUpdateTime.Add(approvedExpiration); !done || at.Before(until) {
			until, done = at, true
		}
	}
	if end := certificateExpiration(r.Status.Certificate); !end.IsZero() && end.Before(until) {
		until = end
	}
	return max(until.Sub(now), 0)
}

// certificateExpiration returns when the first certificate expires; zero without one.
func certificateExpiration(chain []byte) time.Time {
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

// PodRequestTimeLeft returns how long to keep a PodCertificateRequest: the kubelet has read the
// answer by then, or creates a new one.
func PodRequestTimeLeft(r *certificatesv1.PodCertificateRequest, now time.Time) time.Duration {
	return max(r.CreationTimestamp.Add(podRequestExpiration).Sub(now), 0)
}
