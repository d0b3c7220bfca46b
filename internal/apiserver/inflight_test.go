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

// blockingAuthorizer lets everybody do everything, but holds up requests to the namespace "held"
// where the limits have already counted them.
type blockingAuthorizer struct {
	entered, unblock chan struct{}
}

func newBlockingAuthorizer() *blockingAuthorizer {
	return &blockingAuthorizer{make(chan struct{}), make(chan struct{})}
}

func (d *blockingAuthorizer) access(AccessDeps) (*Access, error) {
	return &Access{Authorizer: authorizer.AuthorizerFunc(d.authorize)}, nil
}

func (d *blockingAuthorizer) authorize(ctx context.Context,
	a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetNamespace() != "held" {
		return authorizer.DecisionAllow, "", nil
	}
	for arrived := d.entered; ; {
		select {
		case arrived <- struct{}{}:
			arrived = nil
		case <-d.unblock:
			return authorizer.DecisionAllow, "", nil
		case <-ctx.Done():
			return authorizer.DecisionDeny, "", ctx.Err()
		}
	}
}

// userClient is somebody who asks.
type userClient struct {
	client *http.Client
	url    string
}

func clientAs(t *testing.T, s *Server, name string, groups ...string) userClient {
	t.Helper()
	cfg := s.InProcess(&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)})
	return userClient{mustCreate[*http.Client](t)(restclient.HTTPClientFor(cfg)), cfg.Host}
}

// httpReply is what a short request got; code 0 is none.
type httpReply struct {
	code   int
	header http.Header
}

// send reads a ConfigMap that is not there (404), or writes one that is empty (400).
func (g userClient) send(ctx context.Context, method, namespace string) httpReply {
	path := g.url + "/api/v1/namespaces/" + namespace + "/configmaps"
	if method == http.MethodGet {
		path += "/none"
	}
	req, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(""))
	if err != nil {
		return httpReply{}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := g.client.Do(req)
	if err != nil {
		return httpReply{}
	}
	res.Body.Close()
	return httpReply{res.StatusCode, res.Header}
}

// trySend sends a request that is held up when it is let in; its answer comes later.
func (g userClient) trySend(ctx context.Context, method string) <-chan httpReply {
	out := make(chan httpReply, 1)
	go func() { out <- g.send(ctx, method, "held") }()
	return out
}

// fill has n requests held up. One that is refused, as the server's own writes and those just
// answered take places too, is sent again.
func (d *blockingAuthorizer) fill(t *testing.T, g userClient, method string, n int) (held []<-chan httpReply) {
	t.Helper()
	for len(held) < n {
		eventually(t, "one more request is let in", func() bool {
			a := g.trySend(t.Context(), method)
			select {
			case <-d.entered:
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
func (d *blockingAuthorizer) release(t *testing.T, held []<-chan httpReply, want int) {
	t.Helper()
	close(d.unblock)
	for _, a := range held {
		if got := <-a; got.code != want {
			t.Errorf("a request that was held up: %d, want %d", got.code, want)
		}
	}
}

func refused(a httpReply) bool {
	return a.code == http.StatusTooManyRequests && a.header.Get("Retry-After") == "1"
}

// A server works on so many requests at once and answers further ones 429 with the time to come
// back; reads and writes are counted apart, watches not at all, and masters always get an answer.
// All is as before when the requests have ended.
func TestRequestsAtOnceAreLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		limits        MaxInFlight
		full, other   string
		places, after int
	}{
		"writes by default": {MaxInFlight{}, http.MethodPost, http.MethodGet, 200, http.StatusBadRequest},
		"reads":             {MaxInFlight{NonMutating: 5}, http.MethodGet, http.MethodPost, 5, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := newBlockingAuthorizer(), testConfig(t.TempDir())
			c.Access, c.MaxInFlight = d.access, tt.limits
			s, _, _ := startServer(t, c)
			bob := clientAs(t, s, "bob")
			held := d.fill(t, bob, tt.full, tt.places)
			if a := bob.send(t.Context(), tt.full, "default"); !refused(a) {
				t.Errorf("one more: %d, Retry-After %q", a.code, a.header.Get("Retry-After"))
			}
			if a := bob.send(t.Context(), tt.other, "default"); a.code == http.StatusTooManyRequests || a.code == 0 {
				t.Errorf("%s while %s is full: %d", tt.other, tt.full, a.code)
			}
			if a := clientAs(t, s, "root", user.SystemPrivilegedGroup).send(t.Context(), tt.full, "default"); a.code !=
				tt.after {
				t.Errorf("a master: %d, want %d", a.code, tt.after)
			}
			cfg := s.InProcess(&user.DefaultInfo{Name: "bob"})
			w, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("default").Watch(t.Context(),
				metav1.ListOptions{})
			if err != nil {
				t.Errorf("a watch: %v, want no error", err)
			} else {
				w.Stop()
			}
			d.release(t, held, tt.after)
			eventually(t, "there is room again",
				func() bool { return bob.send(t.Context(), tt.full, "default").code == tt.after })
		})
	}
}

// Without bounds there is nothing that fairness could divide.
func TestPriorityAndFairnessNeedsALimit(t *testing.T) {
	c := testConfig(t.TempDir())
	c.PriorityAndFairness, c.MaxInFlight = true, MaxInFlight{NonMutating: -1, Mutating: -1}
	_, stop, err := launch(c)
	if err == nil {
		_ = stop()
	}
	if err == nil || !strings.Contains(err.Error(), "--max-requests-inflight") {
		t.Errorf("got %v, want the flags named", err)
	}
}

// level makes a priority level with one flow schema for the user of its name alone, and waits until
// they are in force.
func level(t *testing.T, c kubernetes.Interface, g userClient, name string, response flowcontrolv1.LimitResponse) {
	t.Helper()
	f := c.FlowcontrolV1()
	mustCreate[*flowcontrolv1.PriorityLevelConfiguration](t)(f.PriorityLevelConfigurations().Create(t.Context(),
		&flowcontrolv1.PriorityLevelConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: new(int32(1)), BorrowingLimitPercent: new(int32(0)),
					LimitResponse: response,
				}},
		}, metav1.CreateOptions{}))
	made := mustCreate[*flowcontrolv1.FlowSchema](t)(f.FlowSchemas().Create(t.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         500,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser,
					User: &flowcontrolv1.UserSubject{Name: name}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"},
					ClusterScope: true,
				}},
			}},
		},
	}, metav1.CreateOptions{}))
	eventually(t, "the schema is in force", func() bool {
		return g.send(t.Context(), http.MethodGet,
			"default").header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(made.UID)
	})
}

// inFlightLimit is what one share of a level is worth: 600 requests at once, divided by the 245
// shares of the levels that every server has and the test's own one or two, rounded up.
const inFlightLimit = 3

// Who fills a level is refused, or waits in a queue and is refused when that is full; who is of
// another level, or exempt, does not notice; and all pass when the seats are free again.
func TestFairnessRefusesAndQueues(t *testing.T) {
	d, c := newBlockingAuthorizer(), testConfig(t.TempDir())
	c.PriorityAndFairness, c.Access = true, d.access
	s, client, _ := startServer(t, c)
	greedy, patient := clientAs(t, s, "greedy"), clientAs(t, s, "patient")
	level(t, client, greedy, "greedy", flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject})
	level(t, client, patient, "patient", flowcontrolv1.LimitResponse{
		Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1,
			QueueLengthLimit: 1},
	})
	held := d.fill(t, greedy, http.MethodGet, inFlightLimit)
	if a := greedy.send(t.Context(), http.MethodGet, "default"); !refused(a) {
		t.Errorf("one more: %d, Retry-After %q", a.code, a.header.Get("Retry-After"))
	}
	for name, g := range map[string]userClient{"another level": clientAs(t, s, "bob"),
		"exempt": clientAs(t, s, "root", user.SystemPrivilegedGroup)} {
		if a := g.send(t.Context(), http.MethodGet, "default"); a.code != http.StatusNotFound {
			t.Errorf("%s: got %d, want %d", name, a.code, http.StatusNotFound)
		}
	}
	held = append(held, d.fill(t, patient, http.MethodGet, inFlightLimit)...)
	var lost httpReply
	// the queue has room for one of them
	one, other := patient.trySend(t.Context(), http.MethodGet), patient.trySend(t.Context(), http.MethodGet)
	select {
	case lost = <-one:
		held = append(held, other)
	case lost = <-other:
		held = append(held, one)
	case <-d.entered:
		t.Fatal("a request was let in beyond the seats")
	}
	if !refused(lost) {
		t.Errorf("beyond the queue: %d, Retry-After %q", lost.code, lost.header.Get("Retry-After"))
	}
	d.release(t, held, http.StatusNotFound)
	for _, g := range []userClient{greedy, patient} {
		eventually(t, "the level has room again",
			func() bool { return g.send(t.Context(), http.MethodGet, "default").code == http.StatusNotFound })
	}
}
