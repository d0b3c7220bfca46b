package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver/registry/services/portallocator"
	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// Two API servers over one etcd never give a node port or a cluster address twice, whoever makes
// and deletes Services; nothing leaks, over a restart either.
func TestTwoServersGiveNoNodePortTwice(t *testing.T) {
	config := testConfig(t.TempDir())
	config.Services.NodePortLow, config.Services.NodePortHigh = 30000, 30011
	s, first, _ := startServer(t, config)
	other := testConfig(t.TempDir())
	other.Services = config.Services
	other.Etcd = store.Options{Servers: s.Store().Transport.ServerList}
	_, second, stop := startServer(t, other)
	servers := []kubernetes.Interface{first, second}
	ns := newNamespace(t, first)
	eventually(t, "the other server knows the namespace", func() bool {
		_, err := second.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		return err == nil
	})
	fill := func(round string) (made []*corev1.Service) {
		t.Helper()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 12 {
			wg.Go(func() {
				n := newService(fmt.Sprintf("%s-%d", round, i))
				n.Spec.Type = corev1.ServiceTypeNodePort
				s, err := servers[i%2].CoreV1().Services(ns).Create(t.Context(), n, metav1.CreateOptions{})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else {
					made = append(made, s)
				}
			})
		}
		wg.Wait()
		ports, ips := map[int32]string{}, map[string]string{}
		for _, s := range made {
			if have := ports[s.Spec.Ports[0].NodePort] + ips[s.Spec.ClusterIP]; have != "" {
				t.Errorf("%s has what %s has: %d, %s, want none", s.Name, have, s.Spec.Ports[0].NodePort,
					s.Spec.ClusterIP)
			}
			ports[s.Spec.Ports[0].NodePort], ips[s.Spec.ClusterIP] = s.Name, s.Name
		}
		return made
	}
	made := fill("a")
	extra := newService("extra")
	extra.Spec.Type = corev1.ServiceTypeNodePort
	for _, c := range servers {
		if _, err := c.CoreV1().Services(ns).Create(t.Context(), extra, metav1.CreateOptions{}); err == nil ||
			!strings.Contains(err.Error(), "failed to allocate a nodePort: range is full") {
			t.Errorf("a thirteenth port of twelve: %v", err)
		}
	}
	// What one server gave, the other takes back, and anybody may have it again, by name too.
	for i, s := range made {
		if err := servers[i%2].CoreV1().Services(ns).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	made = fill("b")
	stop()
	_, servers[1], _ = startServer(t, other)
	asked := newService("asked")
	asked.Spec.Type, asked.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, made[0].Spec.Ports[0].NodePort
	if _, err := servers[1].CoreV1().Services(ns).Create(t.Context(), asked, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "provided port is already allocated") {
		t.Errorf("a port of another's: %v", err)
	}
	if err := servers[0].CoreV1().Services(ns).Delete(t.Context(), made[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mustCreate[*corev1.Service](t)(servers[1].CoreV1().Services(ns).Create(t.Context(), asked, metav1.CreateOptions{}))
}

// Allocations that are wrong in the store are repaired, with events of the Services.
func TestBrokenAllocationsAreRepaired(t *testing.T) {
	config := testConfig(t.TempDir())
	s, c, stop := startServer(t, config)
	ns := newNamespace(t, c)
	n := newService("broken")
	n.Spec.Type = corev1.ServiceTypeNodePort
	made := mustCreate[*corev1.Service](t)(c.CoreV1().Services(ns).Create(t.Context(), n, metav1.CreateOptions{}))
	duplicate := made.DeepCopy()
	duplicate.ObjectMeta = metav1.ObjectMeta{Name: "twin", Namespace: ns, UID: "u-twin",
		CreationTimestamp: metav1.Now()}
	duplicate.APIVersion, duplicate.Kind = "v1", "Service"
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	mustCreate[*clientv3.PutResponse](t)(etcd.Put(t.Context(), "/registry/services/specs/"+ns+"/twin",
		string(mustCreate[[]byte](t)(json.Marshal(duplicate)))))
	mustCreate[*clientv3.DeleteResponse](t)(etcd.Delete(t.Context(), "/registry/ipaddresses/"+made.Spec.ClusterIP))
	mustCreate[*clientv3.PutResponse](t)(etcd.Put(t.Context(), portallocator.RangeKey,
		`{"kind":"RangeAllocation","apiVersion":"v1","range":"30000-32767","data":""}`))
	stop()
	_, c, _ = startServer(t, config)
	port := made.Spec.Ports[0].NodePort
	want := map[string]string{
		"broken ClusterIPNotAllocated": fmt.Sprintf("Cluster IP [IPv4]: %s is not allocated; repairing",
			made.Spec.ClusterIP),
		"broken PortNotAllocated": fmt.Sprintf("Port %d is not allocated; repairing", port),
		"twin PortAlreadyAllocated": fmt.Sprintf(
			"Port %d was assigned to multiple services; please recreate service", port),
		"twin ClusterIPAlreadyAllocated": fmt.Sprintf(
			"Cluster IP [IPv4]:%s was assigned to multiple services; please recreate service", made.Spec.ClusterIP),
	}
	var got map[string]string
	defer func() {
		if t.Failed() {
			t.Logf("events: %v", got)
		}
	}()
	eventually(t, "events about both Services", func() bool {
		got = map[string]string{}
		for _, e := range mustCreate[*corev1.EventList](t)(
			c.CoreV1().Events(ns).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})).Items {
			got[e.InvolvedObject.Name+" "+e.Reason] = e.Message
		}
		for k, text := range want {
			if got[k] != text {
				return false
			}
		}
		return true
	})
	eventually(t, "the address has its entry again",
		func() bool { return entries(t, c)[made.Spec.ClusterIP] == "broken" })
}
