package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A host of a Secret stands in a printed command only when it is a plain one.
func TestHostsOfSecretsInCommandsArePlain(t *testing.T) {
	p := imagePull{host: "registry.example.com:5000", input: In{Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}}}
	for host, want := range map[string]bool{"mirror.example.com/v1": true, "a#;id;#": false, "a'b": false, "": false,
		"a\nb": false, "$(id)": false, "a&b": false} {
		f := p.copyHostFix("pull", host)
		if got := len(f.Run) > 0; got != want {
			t.Errorf("%q: got a command %v, want %v", host, got, want)
		}
	}
	if got := strings.Join(p.copyHostFix("it's", "a.example.com").Run, ""); !strings.Contains(got, `'it'\''s'`) ||
		!strings.Contains(got, `a\.example\.com`) {
		t.Errorf("got %s", got)
	}
}
