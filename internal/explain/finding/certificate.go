package finding

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// signers are those that controllers of Kubernetes serve, and whether they approve by themselves.
var signers = map[string]bool{certificatesv1.KubeAPIServerClientSignerName: false,
	certificatesv1.KubeAPIServerClientKubeletSignerName: true, certificatesv1.KubeletServingSignerName: false}

// signingRequest finds what a CertificateSigningRequest waits for.
func signingRequest(c *Cluster, o metav1.Object, self Object) []Finding {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(r.Status.Certificate) > 0 {
		return nil
	}
	f := Finding{Stage: StageControl, Object: self, Field: "status.conditions", Numbers: map[string]string{
		"age": c.Now.Sub(r.CreationTimestamp.Time).Round(time.Second).String()}}
	state := map[certificatesv1.RequestConditionType]certificatesv1.CertificateSigningRequestCondition{}
	for _, cond := range r.Status.Conditions {
		state[cond.Type] = cond
	}
	_, known := signers[r.Spec.SignerName]
	switch denied, failed := state[certificatesv1.CertificateDenied], state[certificatesv1.CertificateFailed]; {
	case denied.Type != "":
		f.Code, f.Value = "RequestDenied", "Denied"
		f.Message = fmt.Sprintf("Certificate request %s of %s was denied (%s): %s", self.Name, r.Spec.Username,
			denied.Reason, denied.Message)
		f.Remedies = []Remedy{{Say: "a denied request stays denied: delete it and make another one",
			Run: []string{kubectl(self, "delete", "")}}}
	case failed.Type != "":
		f.Code, f.Value = "SigningFailed", "Failed"
		f.Message = fmt.Sprintf("Certificate request %s was approved, and signer %s cannot sign it (%s): %s", self.Name,
			r.Spec.SignerName, failed.Reason, failed.Message)
	case state[certificatesv1.CertificateApproved].Type == "":
		f.Code, f.Value, f.Want = "NotApproved", "", "Approved"
		f.Message = fmt.Sprintf("Certificate request %s of %s (signer %s) waits for approval: nobody approved or "+
			"denied it.", self.Name, r.Spec.Username, r.Spec.SignerName)
		f.Remedies = []Remedy{{Say: "approve it, if you know who asks",
			Run: []string{"kubectl certificate approve " + self.Name}},
			{Say: "or deny it", Run: []string{"kubectl certificate deny " + self.Name}}}
		if len(signing(c, o, self)) > 0 { // approval would not help
			f.Severity, f.Remedies = Note, nil
		}
		if !known {
			f.Message += " No controller of Kubernetes serves that signer: its own has to sign it afterwards."
		}
	case !known:
		f.Code, f.Field, f.Value = "SignerUnknown", "spec.signerName", r.Spec.SignerName
		f.Message = fmt.Sprintf("Certificate request %s is approved and has no certificate: no controller of "+
			"Kubernetes serves signer %s; one of its own has to run.", self.Name, r.Spec.SignerName)
		f.Want, _ = Near(r.Spec.SignerName, []string{certificatesv1.KubeAPIServerClientSignerName,
			certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName})
		if f.Want != "" {
			f.Message += fmt.Sprintf(" Perhaps %s was meant.", f.Want)
		}
	case c.Now.Sub(r.CreationTimestamp.Time) > settleTime:
		f.Code, f.Value = "ControllersIdle", "Approved"
		f.Message = fmt.Sprintf("Certificate request %s is approved, and no controller has signed it.", self.Name)
	default:
		return nil
	}
	return []Finding{f}
}

// certificateSecret finds a TLS Secret whose certificate has ended or will soon. Only the
// certificate is looked at; it is no secret.
func certificateSecret(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Secret)
	if !ok || s.Type != corev1.SecretTypeTLS {
		return nil
	}
	return certificateTimes(c.Now, s.Data[corev1.TLSCertKey], self, "data[tls.crt]")
}

// certificateTimes finds a first certificate outside of its time. A bundle of authorities is well
// while another of them is valid.
func certificateTimes(now time.Time, bundle []byte, self Object, field string) []Finding {
	block, rest := pem.Decode(bundle)
	if block == nil {
		return nil
	}
	for next, more := pem.Decode(rest); next != nil && strings.HasSuffix(field,
		"caBundle"); next, more = pem.Decode(more) {
		x, err := x509.ParseCertificate(next.Bytes)
		if err == nil && now.Before(x.NotAfter) && now.After(x.NotBefore) {
			return nil
		}
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	f := Finding{Stage: StageTraffic, Object: self, Field: field, Value: cert.NotAfter.UTC().Format(time.RFC3339),
		Numbers: map[string]string{"notBefore": cert.NotBefore.UTC().Format(time.RFC3339),
			"notAfter": cert.NotAfter.UTC().Format(time.RFC3339)}}
	switch {
	case now.After(cert.NotAfter):
		f.Code = "CertificateExpired"
		f.Message = fmt.Sprintf("The certificate in %s of %s %s has ended on %s.", field, self.Kind, self.Name, f.Value)
	case now.Before(cert.NotBefore):
		f.Code, f.Value = "CertificateNotYetValid", cert.NotBefore.UTC().Format(time.RFC3339)
		f.Message = fmt.Sprintf("The certificate in %s of %s %s is valid from %s on only.", field, self.Kind, self.Name,
			f.Value)
	case cert.NotAfter.Sub(now) < 14*24*time.Hour && cert.NotAfter.Sub(cert.NotBefore) > 30*24*time.Hour:
		f.Code, f.Severity = "CertificateEnding", Threat
		f.Message = fmt.Sprintf("The certificate in %s of %s %s ends on %s, in %d days.", field, self.Kind, self.Name,
			f.Value, int(cert.NotAfter.Sub(now).Hours()/24))
	default:
		return nil
	}
	f.Remedies = []Remedy{{Say: "renew the certificate"}}
	return []Finding{f}
}

// sortedKinds are the kinds that were read.
func (c *Cluster) sortedKinds() []string {
	var out []string
	for k := range c.Objects {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
