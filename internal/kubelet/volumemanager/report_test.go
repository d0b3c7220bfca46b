package volumemanager

import (
	"errors"
	"strings"
	"testing"
)

// Who waits for a signer looks at the signer; whose request was refused has to ask otherwise.
func TestFixesOfCertificates(t *testing.T) {
	for text, want := range map[string]string{
		"waiting for signer example.com/s to answer PodCertificateRequest n/r, made 3s ago": "kubectl describe " +
			"podcertificaterequests",
		"signer example.com/s denied PodCertificateRequest n/r: UnsupportedKeyType: ask for ED25519": "change " +
			"podCertificate",
	} {
		if got := remedy(nil, errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want it with %v", text, got, want)
		}
	}
}
