package rollout

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/trace/packet"
)

const replicas = 3

// web serves with a readiness probe and goes only when its endpoint has gone.
func web() (*appsv1.Deployment, *corev1.Service) {
	labels := map[string]string{"app": "web"}
	container := corev1.Container{Name: "web", Image: agnhost, Args: []string{"netexec", "--http-port=8080"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
			Port: intstr.FromString("http")}}, PeriodSeconds: 1, FailureThreshold: 1},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}}}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(0)),
					MaxSurge: new(intstr.FromInt32(1))}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(20)),
					Containers: []corev1.Container{container}}}}}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}}}}
	return d, s
}

func TestRollout(t *testing.T) {
	c := newCluster(t)
	d, s := web()
	if _, err := c.api.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := c.api.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := []string{fmt.Sprintf("127.0.0.1:%d", s.Spec.Ports[0].NodePort), s.Spec.ClusterIP + ":80"}
	c.rolled(90 * time.Second)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, a := range at {
		c.eventually(time.Minute, a+" answers", func(context.Context) (string, bool) {
			who, err := ask(client, "http://"+a+"/hostname")
			return fmt.Sprint(who, err), err == nil
		})
	}
	t.Run("the explanations say so", func(t *testing.T) { c.forSubtest(t).explained(s) })
	t.Run("rolling update under load", func(t *testing.T) {
		l := begin(t, at...)
		c.forSubtest(t).roll("first")
		c.forSubtest(t).rolled(120 * time.Second)
		l.end(t, replicas+1)
	})
	t.Run("and Gantry killed in the middle", func(t *testing.T) {
		c := c.forSubtest(t)
		l := begin(t, at...)
		c.roll("second")
		for range 2 {
			c.eventually(60*time.Second, "another new Pod, and an old one that ends",
				func(context.Context) (string, bool) {
					ending := 0
					for _, p := range c.pods() {
						if p.DeletionTimestamp != nil {
							ending++
						}
					}
					return fmt.Sprint(ending, " Pods end"), ending > 0
				})
			c.Kill()
			c.Start()
		}
		c.rolled(180 * time.Second)
		l.end(t, replicas+1)
	})
	t.Run("a Pod that turns unready", func(t *testing.T) { c.forSubtest(t).unready(at) })
	t.Run("load balancer", func(t *testing.T) { c.forSubtest(t).balanced() })
}

// forSubtest reports failures to a subtest; what runs is shared.
func (c *cluster) forSubtest(t *testing.T) *cluster { return &cluster{c.Cluster.As(t), t, c.api} }

// roll changes the Pods' template.
func (c *cluster) roll(to string) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"roll":%q}}}}}`, to)
	if _, err := c.api.AppsV1().Deployments("default").Patch(c.t.Context(), "web", types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// rolled waits until all Pods are of the newest template, ready, and the old ones gone.
func (c *cluster) rolled(within time.Duration) {
	c.t.Helper()
	c.eventually(within, "rolled out", func(ctx context.Context) (string, bool) {
		d, err := c.api.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		n := len(c.pods())
		x := d.Status
		return fmt.Sprintf("%d Pods, %+v", n, x),
			x.ObservedGeneration == d.Generation && x.UpdatedReplicas == replicas && x.AvailableReplicas == replicas &&
				x.Replicas == replicas && n == replicas
	})
}

// explained asks for a packet that arrives, one to a port that is not there, and why the Service
// works.
func (c *cluster) explained(s *corev1.Service) {
	c.t.Helper()
	var w packet.Result
	from := c.pods()[0].Name
	c.inspect(&w, "trace", "packet", "--from", "pod/"+from, "--to", "service/web:80")
	if w.Outcome != packet.Delivered || len(w.Endpoints) != replicas || !strings.Contains(fmt.Sprint(w.Steps),
		"listens on") {
		c.t.Errorf("to the Service: %+v", w)
	}
	w = packet.Result{}
	c.inspect(&w, "trace", "packet", "--from", "pod/"+from, "--to", "pod/"+from+":8081")
	if w.Outcome != packet.Refused || w.Reason != packet.NoListener {
		c.t.Errorf("to a port nobody listens on: %+v", w)
	}
	w = packet.Result{}
	c.inspect(&w, "trace", "packet", "--from", "pod/"+from, "--to", s.Spec.ClusterIP+":81")
	if w.Outcome != packet.Refused || w.Reason != packet.NoSuchPort {
		c.t.Errorf("to a port the Service has not: %+v", w)
	}
	var a struct{ State, Cause string }
	c.inspect(&a, "why", "service/web")
	if a.State != "Ready" || !strings.Contains(a.Cause, "3 ready endpoints") {
		c.t.Errorf("why service: %+v", a)
	}
}

// unready lets one Pod's probe fail: the slice says so, and the rules lead nobody there. On a
// machine that does nothing else both take less than a second from the Pod's condition.
// row: PRB-15
// row: PRB-31
func (c *cluster) unready(at []string) {
	c.t.Helper()
	victim := c.pods()[0]
	l := begin(c.t, at...)
	defer l.stop()
	c.eventually(time.Minute, "the Pod answers",
		func(context.Context) (string, bool) { return victim.Name, !l.answered(victim.Name).IsZero() })
	client := &http.Client{Timeout: time.Minute}
	if _, err := client.Get("http://" + victim.Status.PodIP + ":8080/toggle"); err != nil {
		c.t.Fatal(err)
	}
	var since time.Time
	c.eventually(time.Minute, "the Pod is not Ready", func(ctx context.Context) (string, bool) {
		p, err := c.api.CoreV1().Pods("default").Get(ctx, victim.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		since = time.Now()
		return p.ResourceVersion, !ready(p)
	})
	c.eventually(time.Minute, "the slice says so", func(ctx context.Context) (string, bool) {
		list, err := c.api.DiscoveryV1().EndpointSlices("default").List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err.Error(), false
		}
		for _, e := range list.Items[0].Endpoints {
			if e.TargetRef.Name == victim.Name {
				return fmt.Sprint(*e.Conditions.Ready), !*e.Conditions.Ready
			}
		}
		return "not listed", false
	})
	c.eventually(time.Minute, "no traffic leads there", func(context.Context) (string, bool) {
		n := l.answersSince(victim.Name) // of chance, one in three being its own, so many never come
		return fmt.Sprintf("%d answers of others since its last", n), n >= 200
	})
	c.t.Logf("the last answer came %s after the Pod was seen not Ready", l.answered(victim.Name).Sub(since))
	l.end(c.t, replicas)
	p, err := c.api.CoreV1().Pods("default").Get(c.t.Context(), victim.Name, metav1.GetOptions{})
	if err != nil || p.Status.ContainerStatuses[0].RestartCount != 0 {
		c.t.Errorf("restarted: got %v, %v, want no error and [0].RestartCount 0", p.Status.ContainerStatuses, err)
	}
}

func ready(p *corev1.Pod) bool {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

// balanced makes the Service a load balancer: a node that only has a loopback address has none to
// give, and says so; one with an address for the outside gives it.
func (c *cluster) balanced() {
	c.t.Helper()
	api := c.api.CoreV1()
	if _, err := api.Services("default").Patch(c.t.Context(), "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"type":"LoadBalancer"}}`), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually(time.Minute, "an event that says why there is no address", func(ctx context.Context) (string, bool) {
		list, err := api.Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=SyncLoadBalancerFailed"})
		if err != nil || len(list.Items) == 0 {
			return fmt.Sprint(err), false
		}
		return list.Items[0].Message,
			strings.HasPrefix(list.Items[0].Message,
				"Error syncing load balancer: failed to ensure load balancer: no node has an address")
	})
	c.eventually(time.Minute, "the node's address", func(ctx context.Context) (string, bool) {
		patch := `{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"},{"type":"ExternalIP",` +
			`"address":"192.0.2.77"}]}}`
		if _, err := api.Nodes().Patch(ctx, "node-1", types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}, "status"); err != nil {
			return err.Error(), false
		}
		s, err := api.Services("default").Get(ctx, "web", metav1.GetOptions{})
		return fmt.Sprint(s.Status, err), err == nil && len(s.Status.LoadBalancer.Ingress) == 1 &&
			s.Status.LoadBalancer.Ingress[0].IP == "192.0.2.77"
	})
}
