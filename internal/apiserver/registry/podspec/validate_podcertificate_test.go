package podspec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A projection of a certificate is kept and validated (KEP-4317).
func TestPodCertificateProjections(t *testing.T) {
	good := v1.PodCertificateProjection{SignerName: "example.com/x", KeyType: "ED25519",
		CredentialBundlePath: "both.pem"}
	for name, c := range map[string]struct {
		edit func(*v1.PodCertificateProjection)
		want string
	}{
		"good":      {func(*v1.PodCertificateProjection) {}, ""},
		"two files": {func(p *v1.PodCertificateProjection) { p.KeyPath, p.CertificateChainPath = "k", "c" }, ""},
		"no signer": {func(p *v1.PodCertificateProjection) { p.SignerName = "" },
			"podCertificate.signerName: Required value"},
		"bad signer": {func(p *v1.PodCertificateProjection) { p.SignerName = "x" },
			"must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		"bad key type": {func(p *v1.PodCertificateProjection) { p.KeyType = "RSA1024" },
			`keyType: Unsupported value: "RSA1024": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384",` +
				` "ECDSAP521", "ED25519"`},
		"too short a life": {func(p *v1.PodCertificateProjection) { p.MaxExpirationSeconds = new(int32(3599)) },
			"maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"},
		"a long life": {func(p *v1.PodCertificateProjection) { p.MaxExpirationSeconds = new(int32(7862400)) }, ""},
		"long for kubernetes": {func(p *v1.PodCertificateProjection) {
			p.SignerName, p.MaxExpirationSeconds = "kubernetes.io/x", new(int32(86401))
		}, "if provided, maxExpirationSeconds must be <= 86400"},
		"no file": {func(p *v1.PodCertificateProjection) { p.CredentialBundlePath = "" },
			"podCertificate: Required value: specify at least one of"},
		"path that climbs": {func(p *v1.PodCertificateProjection) { p.KeyPath = "../k" },
			"keyPath: Invalid value: \"../k\": must not contain '..'"},
		"one path for two": {func(p *v1.PodCertificateProjection) { p.KeyPath = "both.pem" },
			"conflicting duplicate paths"},
		"annotation": {
			func(p *v1.PodCertificateProjection) { p.UserAnnotations = map[string]string{"example.com/a": "b"} }, ""},
		"annotation of nobody": {
			func(p *v1.PodCertificateProjection) { p.UserAnnotations = map[string]string{"a": "b"} },
			"must be a domain-prefixed key"},
	} {
		p := good
		c.edit(&p)
		s := with(v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{PodCertificate: &p}}}})
		DropDisabled(s, nil)
		if s.Volumes[0].Projected.Sources[0].PodCertificate == nil {
			t.Fatalf("%s: it was dropped", name)
		}
		got := errorText(ValidatePodSpec(s, "", field.NewPath("spec")))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
