package finding

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// The subject that signers of kubelets' certificates demand.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// unsignable finds what a request's own content lacks of what the signers of kubelets demand, as
// the API's documentation of signers has it: the signer marks such a request Failed.
func unsignable(r *certificatesv1.CertificateSigningRequest, self Object) []Finding {
	block, _ := pem.Decode(r.Spec.Request)
	kubelet := r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
	serving := r.Spec.SignerName == certificatesv1.KubeletServingSignerName
	if block == nil || !kubelet && !serving {
		return nil
	}
	x, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil
	}
	names := len(x.DNSNames) + len(x.IPAddresses)
	others := len(x.EmailAddresses) + len(x.URIs)
	var out []Finding
	add := func(what, has, want string) {
		out = append(out, Finding{Code: "RequestUnfit", Stage: StageControl, Object: self, Field: "spec.request",
			Value: has, Want: want, Message: fmt.Sprintf("Certificate request %s has %s %s, and signer %s demands %s: "+
				"it is not signed.", self.Name, what, has, r.Spec.SignerName, want),
			Remedies: []Remedy{{Say: fmt.Sprintf("make another request with %s %s: a request cannot be changed", what,
				want)}}})
	}
	if !strings.HasPrefix(x.Subject.CommonName, nodeUserPrefix) {
		add("the common name", fmt.Sprintf("%q", x.Subject.CommonName), nodeUserPrefix+"NODE")
	}
	if !slices.Equal(x.Subject.Organization, []string{nodesGroup}) {
		add("the organisation", orNone(x.Subject.Organization, "none"), nodesGroup)
	}
	switch {
	case kubelet && names+others > 0:
		add("other names", fmt.Sprint(names+others), "none")
	case serving && names == 0:
		add("names of hosts and addresses", "none", "at least one")
	}
	return out
}
