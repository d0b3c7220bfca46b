package scheduler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// program is an extender that refuses n1, prefers n3, and binds what asks for example.com/thing.
func program(t *testing.T, c **cluster, asked *atomic.Int64) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var answer any
		switch verb := strings.TrimPrefix(r.URL.Path, "/x/"); verb {
		case "filter", "prioritize":
			var args extenderv1.ExtenderArgs
			if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if verb == "prioritize" {
				answer = extenderv1.HostPriorityList{{Host: "n2", Score: 1}, {Host: "n3", Score: 10}}
				break
			}
			result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}}
			var left []string
			for _, n := range *args.NodeNames {
				if n == "n1" || args.Pod.Name == "unwanted" {
					result.FailedNodes[n] = "the extender says no"
				} else {
					left = append(left, n)
				}
			}
			result.NodeNames = &left
			answer = result
		case "bind":
			var args extenderv1.ExtenderBindingArgs
			if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: args.PodName, Namespace: args.PodNamespace},
				Target: v1.ObjectReference{Name: args.Node}}
			if err := (*c).CoreV1().Pods(args.PodNamespace).Bind(r.Context(), b, metav1.CreateOptions{}); err != nil {
				answer = extenderv1.ExtenderBindingResult{Error: err.Error()}
				break
			}
			answer = extenderv1.ExtenderBindingResult{}
		}
		_ = json.NewEncoder(w).Encode(answer) // the caller went away
	}))
	t.Cleanup(web.Close)
	return web.URL + "/x"
}

func withExtenders(t *testing.T, text string) func(*Options) {
	t.Helper()
	cfg, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Config = cfg }
}

func TestExtendersFilterPrioritizeAndBind(t *testing.T) {
	t.Parallel()
	var c *cluster
	var asked atomic.Int64
	url := program(t, &c, &asked)
	c = start(t,
		withExtenders(t,
			"- {urlPrefix: '"+url+"', filterVerb: filter, prioritizeVerb: prioritize, bindVerb: bind, weight: 5, "+
				"nodeCacheCapable: true}\n"),
		aNode("n1", "64"), aNode("n2", "64"), aNode("n3", "8"))
	c.create(aPod("web", "1"))
	if got := c.bound("web"); got != "n3" {
		t.Errorf("bound to %s, the extender prefers n3, want n3", got)
	}
	c.create(aPod("unwanted", "1"))
	c.await("unwanted", "refused", func(p *v1.Pod) bool {
		cond := scheduled(p)
		return cond != nil && strings.HasPrefix(cond.Message, "0/3 nodes are available: 3 the extender says no.")
	})
}

func TestExtendersAreAskedAboutWhatTheyManage(t *testing.T) {
	t.Parallel()
	var c *cluster
	var asked atomic.Int64
	url := program(t, &c, &asked)
	c = start(t,
		withExtenders(t,
			"- {urlPrefix: '"+url+"', filterVerb: filter, nodeCacheCapable: true, managedResources: [{name: "+
				"example.com/thing, ignoredByScheduler: true}]}\n"), aNode("n1", "4"), aNode("n2", "4"))
	c.create(aPod("plain", "1"))
	c.bound("plain")
	if n := asked.Load(); n != 0 {
		t.Errorf("asked %d times about a Pod without its resource, want 0", n)
	}
	c.create(aPod("thing", "1", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests["example.com/thing"] = resource.MustParse("1")
	}))
	if got := c.bound("thing"); got != "n2" { // no node has any: the scheduler leaves that to the extender
		t.Errorf("bound to %s, want n2", got)
	}
}

func TestAnExtenderThatIsAway(t *testing.T) {
	t.Parallel()
	away := "- {urlPrefix: 'http://127.0.0.1:1/x', filterVerb: filter"
	c := start(t, withExtenders(t, away+", ignorable: true}\n"), aNode("n1", "4"))
	c.create(aPod("web", "1"))
	c.bound("web")
	c = start(t, withExtenders(t, away+"}\n"), aNode("n1", "4"))
	c.create(aPod("web", "1"))
	c.await("web", "refused", func(p *v1.Pod) bool {
		cond := scheduled(p)
		return cond != nil && cond.Reason == v1.PodReasonSchedulerError && strings.Contains(cond.Message,
			"extender http://127.0.0.1:1/x:")
	})
}
