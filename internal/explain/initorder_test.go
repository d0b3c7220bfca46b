package explain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestInitContainerOrder(t *testing.T) {
	for text, want := range map[string]hostPort{
		"until wget -q -T 2 -O - http://db:5432/ok; do sleep 2; done": {"db", 5432},
		"until nc -z -w 2 cache 6379; do sleep 1; done":               {"cache", 6379},
		"until nslookup db.shop.svc.cluster.local; do sleep 2; done":  {"db.shop.svc.cluster.local", 0},
		"curl -sf http://config/ready":                                {"config", 80},
		"while ! (echo > /dev/tcp/queue/5672); do sleep 1; done":      {"queue", 5672},
		"pg_isready --host=pg:5432":                                   {"pg", 5432},
		"wait-for [::1]:9000":                                         {"::1", 9000},
	} {
		got := hostPortsIn(&corev1.Container{Command: []string{"sh", "-c", text}})
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s speaks of %v, want %v", text, got, want)
		}
	}
	if got := hostPortsIn(&corev1.Container{Command: []string{"sh", "-c", "nc -z $HOST 80"},
		Env: []corev1.EnvVar{{Name: "HOST", Value: "api"}}}); len(got) != 1 || got[0] != (hostPort{"api", 80}) {
		t.Errorf("from a variable: %v", got)
	}
}
