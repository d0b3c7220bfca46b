package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// BenchmarkFairness is what a request costs with priority and fairness off and on.
func BenchmarkFairness(b *testing.B) {
	for name, on := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			c := testConfig(b.TempDir())
			c.PriorityAndFairness = on
			s, stop, err := launch(c)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = stop() }()
			client := kubernetes.NewForConfigOrDie(s.InProcess(admin())).CoreV1().ConfigMaps("default")
			if _, err := client.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
				metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Get(b.Context(), "x", metav1.GetOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
