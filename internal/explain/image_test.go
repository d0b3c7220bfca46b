package explain

import (
	"strings"
	"testing"
)

// A pull that needs credentials is mended by commands that make the pull secret and name it in the
// Pod.
//
// row: RST-10
func TestAPullSecretIsMadeAndNamed(t *testing.T) {
	in := base()
	in.state(waiting("ErrImagePull", "401 Unauthorized"))
	for _, f := range Why(in).Fixes {
		if !strings.HasPrefix(f.Description, "make a pull secret for registry.test") {
			continue
		}
		if len(f.Run) != 2 || !strings.Contains(f.Run[0], "create secret docker-registry pull-registry-test ") ||
			!strings.Contains(f.Run[1], `"imagePullSecrets":[{"name":"pull-registry-test"}]`) {
			t.Errorf("got %q, want commands that make pull-registry-test and name it", f.Run)
		}
		return
	}
	t.Errorf("got %+v, want a pull secret to be made", Why(in).Fixes)
}
