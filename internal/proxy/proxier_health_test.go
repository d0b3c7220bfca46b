package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func status(t *testing.T, h http.HandlerFunc) int {
	t.Helper()
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var s healthStatus
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newProxyHealthServer(newMetrics(), time.Hour)
		expect := func(what string, healthz, livez int) {
			t.Helper()
			if a, b := status(t, h.healthz), status(t, h.livez); a != healthz || b != livez {
				t.Errorf("%s: /healthz %d, /livez %d; want %d and %d", what, a, b, healthz, livez)
			}
		}
		expect("before the first rules", 503, 503)
		h.updated(time.Now())
		expect("in step", 200, 200)
		time.Sleep(time.Hour)
		expect("nothing to do for an hour", 200, 200)
		h.queuedUpdate()
		expect("something to do", 200, 200)
		time.Sleep(61 * time.Second)
		expect("it is not done after a minute", 503, 503)
		h.updated(time.Now())
		expect("it is done", 200, 200)
		h.syncNode(&v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: toBeDeletedTaint}}}})
		expect("the node is about to be taken away", 503, 200)
		h.syncNode(&v1.Node{})
		expect("it stays", 200, 200)
		h.syncNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}})
		expect("it is being deleted", 503, 200)
	})
}
