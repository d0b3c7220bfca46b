package apiserver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// doorman lets everybody do everything, but holds up requests to the namespace "held" where the limits have already counted them.
type doorman struct {
	arrived, leave chan struct{}
}

func newDoorman() *doorman { return &doorman{make(chan struct{}), make(chan struct{})} }

func (d *doorman) access(AccessDeps) (*Access, error) {
	return &Access{Authorizer: authorizer.AuthorizerFunc(d.authorize)}, nil
}

func (d *doorman) authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetNamespace() != "held" {
		return authorizer.DecisionAllow, "", nil
	}
	for arrived := d.arrived; ; {
		select {
		case arrived <- struct{}{}:
			arrived = nil
		case <-d.leave:
			return authorizer.DecisionAllow, "", nil
		case <-ctx.Done():
			return authorizer.DecisionDeny, "", ctx.Err()
		}
	}
}

// guest is somebody who asks.
type guest struct {
	client *http.Client
	url    string
}

func asGuest(t *testing.T, s *Server, name string, groups ...string) guest {
	t.Helper()
	cfg := s.InProcess(&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)})
	return guest{must[*http.Client](t)(restclient.HTTPClientFor(cfg)), cfg.Host}
}

// reply is what a short request got; code 0 is none.
type reply struct {
	code   int
	header http.Header
}

// asks reads a ConfigMap that is not there (404), or writes one that is empty (400).
func (g guest) asks(ctx context.Context, method, namespace string) reply {
	path := g.url + "/api/v1/namespaces/" + namespace + "/configmaps"
	if method == http.MethodGet {
		path += "/none"
	}
	req, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(""))
	if err != nil {
		return reply{}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := g.client.Do(req)
	if err != nil {
		return reply{}
	}
	res.Body.Close()
	return reply{res.StatusCode, res.Header}
}

// tries sends a request that is held up when it is let in; its answer comes later.
func (g guest) tries(ctx context.Context, method string) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- g.asks(ctx, method, "held") }()
	return out
}

// fill has n requests held up. One that is refused, as the server's own writes and those just answered take places too, is sent again.
func (d *doorman) fill(t *testing.T, g guest, method string, n int) (held []<-chan reply) {
	t.Helper()
	for len(held) < n {
		until(t, "one more request is let in", func() bool {
			a := g.tries(t.Context(), method)
			select {
			case <-d.arrived:
				held = append(held, a)
				return true
			case <-a:
				return false
			}
		})
	}
	return held
}

// release lets all go and returns when they are answered.
func (d *doorman) release(t *testing.T, held []<-chan reply, want int) {
	t.Helper()
	close(d.leave)
	for _, a := range held {
		if got := <-a; got.code != want {
			t.Errorf("a request that was held up: %d, want %d", got.code, want)
		}
	}
}

func refused(a reply) bool {
	return a.code == http.StatusTooManyRequests && a.header.Get("Retry-After") == "1"
}

// A server works on so many requests at once and answers further ones 429 with the time to come back; reads and writes are counted apart, watches not at
// all, and masters always get an answer. All is as before when the requests have ended.
func TestRequestsAtOnceAreLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		limits        InFlight
		full, other   string
		places, after int
	}{
		"writes by default": {InFlight{}, http.MethodPost, http.MethodGet, 200, http.StatusBadRequest},
		"reads":             {InFlight{Reads: 5}, http.MethodGet, http.MethodPost, 5, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := newDoorman(), testConfig(t.TempDir())
			c.Access, c.InFlight = d.access, tt.limits
			s, _, _ := alone(t, c)
			bob := asGuest(t, s, "bob")
			held := d.fill(t, bob, tt.full, tt.places)
			if a := bob.asks(t.Context(), tt.full, "default"); !refused(a) {
				t.Errorf("one more: %d, Retry-After %q", a.code, a.header.Get("Retry-After"))
			}
			if a := bob.asks(t.Context(), tt.other, "default"); a.code == http.StatusTooManyRequests || a.code == 0 {
				t.Errorf("%s while %s is full: %d", tt.other, tt.full, a.code)
			}
			if a := asGuest(t, s, "root", user.SystemPrivilegedGroup).asks(t.Context(), tt.full, "default"); a.code != tt.after {
				t.Errorf("a master: %d, want %d", a.code, tt.after)
			}
			cfg := s.InProcess(&user.DefaultInfo{Name: "bob"})
			w, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Errorf("a watch: %v", err)
			} else {
				w.Stop()
			}
			d.release(t, held, tt.after)
			until(t, "there is room again", func() bool { return bob.asks(t.Context(), tt.full, "default").code == tt.after })
		})
	}
}

// Without bounds there is nothing that fairness could divide.
func TestFairnessNeedsABound(t *testing.T) {
	c := testConfig(t.TempDir())
	c.PriorityAndFairness, c.InFlight = true, InFlight{Reads: -1, Writes: -1}
	_, stop, err := launch(c)
	if err == nil {
		_ = stop()
	}
	if err == nil || !strings.Contains(err.Error(), "--max-requests-inflight") {
		t.Errorf("got %v, want the flags named", err)
	}
}

// level makes a priority level with one flow schema for the user of its name alone, and waits until they are in force.
func level(t *testing.T, c kubernetes.Interface, g guest, name string, response flowcontrolv1.LimitResponse) {
	t.Helper()
	f := c.FlowcontrolV1()
	must[*flowcontrolv1.PriorityLevelConfiguration](t)(f.PriorityLevelConfigurations().Create(t.Context(), &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: new(int32(1)), BorrowingLimitPercent: new(int32(0)), LimitResponse: response,
		}},
	}, metav1.CreateOptions{}))
	made := must[*flowcontrolv1.FlowSchema](t)(f.FlowSchemas().Create(t.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name}, MatchingPrecedence: 500,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}, ClusterScope: true,
				}},
			}},
		},
	}, metav1.CreateOptions{}))
	until(t, "the schema is in force", func() bool {
		return g.asks(t.Context(), http.MethodGet, "default").header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(made.UID)
	})
}

// seats is what one share of a level is worth: 600 requests at once, divided by the 245 shares of the levels that every server has and the test's own one or
// two, rounded up.
const seats = 3

// Who fills a level is refused, or waits in a queue and is refused when that is full; who is of another level, or exempt, does not notice; and all pass when
// the seats are free again.
func TestFairnessRefusesAndQueues(t *testing.T) {
	d, c := newDoorman(), testConfig(t.TempDir())
	c.PriorityAndFairness, c.Access = true, d.access
	s, client, _ := alone(t, c)
	greedy, patient := asGuest(t, s, "greedy"), asGuest(t, s, "patient")
	level(t, client, greedy, "greedy", flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject})
	level(t, client, patient, "patient", flowcontrolv1.LimitResponse{
		Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 1},
	})
	held := d.fill(t, greedy, http.MethodGet, seats)
	if a := greedy.asks(t.Context(), http.MethodGet, "default"); !refused(a) {
		t.Errorf("one more: %d, Retry-After %q", a.code, a.header.Get("Retry-After"))
	}
	for name, g := range map[string]guest{"another level": asGuest(t, s, "bob"), "exempt": asGuest(t, s, "root", user.SystemPrivilegedGroup)} {
		if a := g.asks(t.Context(), http.MethodGet, "default"); a.code != http.StatusNotFound {
			t.Errorf("%s: %d", name, a.code)
		}
	}
	held = append(held, d.fill(t, patient, http.MethodGet, seats)...)
	var lost reply
	one, other := patient.tries(t.Context(), http.MethodGet), patient.tries(t.Context(), http.MethodGet) // the queue has room for one of them
	select {
	case lost = <-one:
		held = append(held, other)
	case lost = <-other:
		held = append(held, one)
	case <-d.arrived:
		t.Fatal("a request was let in beyond the seats")
	}
	if !refused(lost) {
		t.Errorf("beyond the queue: %d, Retry-After %q", lost.code, lost.header.Get("Retry-After"))
	}
	d.release(t, held, http.StatusNotFound)
	for _, g := range []guest{greedy, patient} {
		until(t, "the level has room again", func() bool { return g.asks(t.Context(), http.MethodGet, "default").code == http.StatusNotFound })
	}
}
