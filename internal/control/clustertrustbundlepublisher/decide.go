package clustertrustbundlepublisher

import (
	"crypto/sha256"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan is what brings a signer's bundles to what they should be.
type Plan struct {
	Create *certificatesv1.ClusterTrustBundle
	Update *certificatesv1.ClusterTrustBundle
	Delete []string // names of bundles that say something else; they go after the right one is there
}

// Decide compares the bundles there are with the one that a signer should have. A signer without
// anchors publishes nothing and leaves alone what there is. The name carries a hash of the content,
// so that a change of authorities makes a new bundle beside the old one before that goes.
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

// Name is what upstream's publisher calls a signer's bundle: the signer, and 96 bits of the
// content's hash.
func Name(signer, anchors string) string {
	sum := sha256.Sum256([]byte(anchors))
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12])
}
