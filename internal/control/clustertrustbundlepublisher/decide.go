package clustertrustbundlepublisher

import (
	"crypto/sha256"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan is the writes for a signer's bundles.
type Plan struct {
	Create *certificatesv1.ClusterTrustBundle
	Update *certificatesv1.ClusterTrustBundle
	Delete []string // names of outdated bundles; deleted after the right one exists
}

// Decide compares the existing bundles with the one that a signer should have. A signer without
// trust anchors publishes and changes nothing. The name contains a hash of the content, so that a
// new bundle exists before the old one is deleted.
func Decide(signer, anchors string, have []*certificatesv1.ClusterTrustBundle) Plan {
	if strings.TrimSpace(anchors) == "" {
		return Plan{}
	}
	var p Plan
	name, found := Name(signer, anchors), false
	for _, b := range have {
		switch {
		case b.Spec.SignerName != signer:
		case b.Name != name:
			p.Delete = append(p.Delete, b.Name)
		default:
			if found = true; b.Spec.TrustBundle != anchors {
				p.Update = b.DeepCopy()
				p.Update.Spec.TrustBundle = anchors
			}
		}
	}
	if !found {
		p.Create = &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: anchors},
		}
	}
	return p
}

// Name returns upstream's name of a signer's bundle: the signer, and 96 bits of the content's hash.
func Name(signer, anchors string) string {
	sum := sha256.Sum256([]byte(anchors))
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12])
}
