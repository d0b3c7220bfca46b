package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// podCertificate validates a projected podCertificate (KEP-4317); claim takes each of its files.
func (j *validator) podCertificate(c *v1.PodCertificateProjection, at *field.Path, claim func(file string)) {
	j.Add(resourcedef.ValidateSignerName(c.SignerName, at.Child("signerName"))...)
	j.Add(resourcedef.ValidateSignerAnnotations(c.UserAnnotations, at.Child("userAnnotations"))...)
	typed.Supported(&j.Errors, at.Child("keyType"), c.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384",
		"ECDSAP521", "ED25519")
	if s := c.MaxExpirationSeconds; s != nil {
		j.Add(resourcedef.ValidatePodCertificateLifetime(*s, c.SignerName, at.Child("maxExpirationSeconds"))...)
	}
	files := 0
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath},
		{"certificateChainPath", c.CertificateChainPath},
	} {
		if f.path != "" {
			files++
			j.localNonReservedPath(f.path, at.Child(f.name))
			claim(f.path)
		}
	}
	if files == 0 {
		j.Required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
