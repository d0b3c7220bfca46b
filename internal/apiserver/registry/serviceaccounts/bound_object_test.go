package serviceaccounts

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
	"github.com/gantry-project/gantry/test/wrappers"
)

// snapshot is stores that may lag behind: what a read at version 0 finds, and what a read of the
// store finds. Keys are resource/namespace/name. It notes every read.
type snapshot struct {
	cached, stored map[string]runtime.Object
	fails          map[string]error
	reads          []string
}

type snapshotStorage struct {
	rest.StandardStorage
	*snapshot
	resource string
}

// Get implements rest.Getter. It fails when the request's attributes do not agree with the read.
func (s snapshotStorage) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	namespace := request.NamespaceValue(ctx)
	key := s.resource + "/" + namespace + "/" + name
	s.reads = append(s.reads, key+"@"+o.ResourceVersion)
	if s.resource != "serviceaccounts" {
		info, _ := request.RequestInfoFrom(ctx)
		want := &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIVersion: "v1", Namespace: namespace,
			Resource: s.resource, Name: name}
		if !reflect.DeepEqual(info, want) {
			return nil, fmt.Errorf("attributes %+v, want %+v", info, want)
		}
	}
	if err := s.fails[key]; err != nil {
		return nil, err
	}
	from := s.stored
	if o.ResourceVersion == "0" {
		from = s.cached
	}
	if found, ok := from[key]; ok {
		return found, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource(s.resource), name)
}

func objectMeta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func podOf(uid, account, node string) *corev1.Pod {
	return wrappers.MakePod().Namespace("ns").Name("p").UID(uid).Node(node).Obj(func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = account
	})
}

var (
	theAccount = &corev1.ServiceAccount{ObjectMeta: objectMeta("ns", "sa", "sa-1")}
	theSecret  = &corev1.Secret{ObjectMeta: objectMeta("ns", "s", "s-1")}
	theNode    = &corev1.Node{ObjectMeta: objectMeta("", "n", "n-1")}
	morning    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newSnapshot() *snapshot {
	objects := func() map[string]runtime.Object {
		return map[string]runtime.Object{"serviceaccounts/ns/sa": theAccount, "secrets/ns/s": theSecret,
			"nodes//n": theNode, "pods/ns/p": podOf("p-1", "sa", "n")}
	}
	return &snapshot{cached: objects(), stored: objects(), fails: map[string]error{}}
}

func (w *snapshot) endpoint(i Issuer) *TokenREST {
	return NewTokenREST(Deps{
		Lookup: func(group, resource string) rest.StandardStorage {
			if group != "" {
				return nil
			}
			return snapshotStorage{snapshot: w, resource: resource}
		},
		Issuer: i, Audiences: []string{api}, Now: func() time.Time { return morning },
	})
}

const uidConflict = `Operation cannot be fulfilled on %s %q: the UID in the bound object reference (old) does not ` +
	`match the UID in record. The object might have been deleted and then recreated`

// What a token is bound to is in what is signed: with the Pod its node, under the name that the Pod
// gives it when the object is gone. An object in the watch cache that is not the one that is asked
// for is looked up in the store.
func TestWhatATokenIsBoundTo(t *testing.T) {
	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		kind, object, uid string
		snapshot          func(*snapshot)
		want              token.TokenRequest // what of it is bound
		reads             string             // beside the account's
		err               string
	}{
		"a Pod": {kind: "Pod", object: "p", uid: "p-1", want: token.TokenRequest{Pod: podOf("p-1", "sa", "n"),
			Node: theNode}, reads: "pods/ns/p@0 nodes//n@0"},
		"a Pod by its name": {kind: "Pod", object: "p",
			want:  token.TokenRequest{Pod: podOf("p-1", "sa", "n"), Node: theNode},
			reads: "pods/ns/p@0 nodes//n@0"},
		"a Pod that the cache has without its node": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) { w.cached["pods/ns/p"] = podOf("p-1", "sa", "") },
			want:     token.TokenRequest{Pod: podOf("p-1", "sa", "n"), Node: theNode},
			reads:    "pods/ns/p@0 pods/ns/p@ nodes//n@0"},
		"a Pod of which the cache has the predecessor": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) { w.cached["pods/ns/p"] = podOf("p-0", "sa", "n") },
			want:     token.TokenRequest{Pod: podOf("p-1", "sa", "n"), Node: theNode},
			reads:    "pods/ns/p@0 pods/ns/p@ nodes//n@0"},
		"a Pod without a node": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) {
				w.cached["pods/ns/p"], w.stored["pods/ns/p"] = podOf("p-1", "sa", ""), podOf("p-1", "sa", "")
			},
			want:  token.TokenRequest{Pod: podOf("p-1", "sa", "")},
			reads: "pods/ns/p@0 pods/ns/p@"},
		"a Pod on a node that the cache does not have": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) { delete(w.cached, "nodes//n") },
			want:     token.TokenRequest{Pod: podOf("p-1", "sa", "n"), Node: theNode},
			reads:    "pods/ns/p@0 nodes//n@0 nodes//n@"},
		"a Pod on a node that is gone": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) {
				w.cached["pods/ns/p"] = podOf("p-1", "sa", "gone")
			},
			want:  token.TokenRequest{Pod: podOf("p-1", "sa", "gone"), Node: gone},
			reads: "pods/ns/p@0 nodes//gone@0 nodes//gone@"},
		"a Pod on a node that cannot be read": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) { w.fails["nodes//n"] = broken },
			err:      "Internal error occurred: broken"},
		"another Pod of the name": {kind: "Pod", object: "p", uid: "old",
			err: fmt.Sprintf(uidConflict, "Pod", "p")},
		"a Pod of another account": {kind: "Pod", object: "p", uid: "p-1",
			snapshot: func(w *snapshot) { w.cached["pods/ns/p"] = podOf("p-1", "other", "n") },
			err:      `cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.`},
		"a Pod that is not there": {kind: "Pod", object: "absent", err: `pods "absent" not found`},
		"a Secret": {kind: "Secret", object: "s", uid: "s-1", want: token.TokenRequest{Secret: theSecret},
			reads: "secrets/ns/s@0"},
		"a Secret by its name": {kind: "Secret", object: "s", want: token.TokenRequest{Secret: theSecret},
			reads: "secrets/ns/s@0 secrets/ns/s@"},
		"another Secret of the name": {kind: "Secret", object: "s", uid: "old",
			err: fmt.Sprintf(uidConflict, "Secret", "s")},
		"a Secret that is not there": {kind: "Secret", object: "absent", err: `secrets "absent" not found`},
		"a node": {kind: "Node", object: "n", uid: "n-1",
			want: token.TokenRequest{Node: theNode}, reads: "nodes//n@0"},
		"another node of the name": {kind: "Node", object: "n", uid: "old",
			err: fmt.Sprintf(uidConflict, "Node", "n")},
		"a node that is not there": {kind: "Node", object: "absent", err: `nodes "absent" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			w, signed := newSnapshot(), &fakeIssuer{}
			if c.snapshot != nil {
				c.snapshot(w)
			}
			req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: c.kind, Name: c.object,
					UID: types.UID(c.uid)}}}
			_, err := w.endpoint(signed).Create(request.WithNamespace(t.Context(), "ns"), "sa", req, nil, nil)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := signed.lastRequest
			bound := token.TokenRequest{Pod: got.Pod, Secret: got.Secret, Node: got.Node}
			if !reflect.DeepEqual(bound, c.want) {
				t.Errorf("got bound to %+v, want %+v", bound, c.want)
			}
			if reads := strings.Join(w.reads[1:], " "); reads != c.reads {
				t.Errorf("got reads %s, want %s", reads, c.reads)
			}
		})
	}
}

type failingIssuer struct{}

func (failingIssuer) Issue(token.TokenRequest, time.Time) (string, error) {
	return "", errors.New("no key")
}

// The answer names the account, its namespace and UID, says when the token was made and when it
// ends, and for whom it is. A status in the request does not count.
func TestAnswerToATokenRequest(t *testing.T) {
	for name, given := range map[string][]string{api: nil, "vault": {"vault"}} {
		w, signed := newSnapshot(), &fakeIssuer{}
		req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: given},
			Status: authenticationv1.TokenRequestStatus{Token: "own"}}
		ctx := audit.WithAuditContext(request.WithNamespace(t.Context(), "ns"))
		if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata},
			nil); err != nil {
			t.Fatal(err)
		}
		asked := 0
		got, err := w.endpoint(signed).Create(ctx, "sa", req, func(_ context.Context, o runtime.Object) error {
			asked++
			if r := o.(*authenticationv1.TokenRequest); r.Status.Token != "" || r.UID != "sa-1" {
				t.Errorf("admission was shown %+v, want the request as it is filled in, without a status", r)
			}
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		life := int64(3600)
		want := &authenticationv1.TokenRequest{ObjectMeta: objectMeta("ns", "sa", "sa-1"),
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{name}, ExpirationSeconds: &life},
			Status: authenticationv1.TokenRequestStatus{Token: "signed",
				ExpirationTimestamp: metav1.NewTime(morning.Add(time.Hour))}}
		want.CreationTimestamp = metav1.NewTime(morning)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if l := signed.lastRequest; l.Account != theAccount || len(l.Audiences) != 1 || l.Audiences[0] != name ||
			len(l.ID) != 36 || l.WarnAfter != 0 {
			t.Errorf("got a token %+v, want one of sa for %s with an ID", l, name)
		}
		if asked != 1 || req.Status.Token != "own" || req.Name != "" {
			t.Errorf("got %d calls of admission and the request %+v, want one and the request as it was", asked, req)
		}
		id, _ := audit.AuditContextFrom(ctx).GetEventAnnotation("authentication.kubernetes.io/issued-credential-id")
		if want := "JTI=" + signed.lastRequest.ID; id != want {
			t.Errorf("got the audit annotation %q, want %q", id, want)
		}
		if w.reads[0] != "serviceaccounts/ns/sa@0" {
			t.Errorf("got the first read %s, want the account's", w.reads[0])
		}
	}
}

func TestWhoRefusesATokenRequest(t *testing.T) {
	ctx := request.WithNamespace(t.Context(), "ns")
	noAccount := newSnapshot()
	noAccount.cached["serviceaccounts/ns/sa"] = theSecret
	for name, c := range map[string]struct {
		snapshot *snapshot
		issuer   Issuer
		body     runtime.Object
		validate rest.ValidateObjectFunc
		want     string
	}{
		"the signer": {issuer: failingIssuer{}, want: "Internal error occurred: no key"},
		"admission": {validate: func(context.Context, runtime.Object) error { return errors.New("not today") },
			want: "not today"},
		"no request": {body: theSecret, want: "not a TokenRequest: *v1.Secret"},
		"no account": {snapshot: noAccount, want: "Internal error occurred: not a ServiceAccount: *v1.Secret"},
		"its content": {body: withLifetime(599), want: `TokenRequest.authentication.k8s.io "" is invalid: ` +
			"spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"},
		"nobody": {body: withLifetime(1 << 32)},
	} {
		if c.snapshot == nil {
			c.snapshot = newSnapshot()
		}
		if c.issuer == nil {
			c.issuer = &fakeIssuer{}
		}
		if c.body == nil {
			c.body = &authenticationv1.TokenRequest{}
		}
		got := ""
		if _, err := c.snapshot.endpoint(c.issuer).Create(ctx, "sa", c.body, c.validate, nil); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func withLifetime(n int64) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &n}}
}

// What a request says of the time it should be good for, of audiences and attestations, by what it
// is bound to.
func TestContentOfTokenRequests(t *testing.T) {
	const oneAudience = "spec.audiences: Invalid value: %s: must be length 1 when bound to a webhook config"
	webhook := func(kind, version string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: version, Name: "a"}
	}
	const v1Version = "admissionregistration.k8s.io/v1"
	apps := attestations{"admissionReviewAPIGroups": {"apps"}}
	const without = `spec.attestations: Invalid value: {"admissionReviewAPIGroups":["apps"]}: ` +
		"attestations may only be specified with a webhook bound object reference"
	for name, c := range map[string]struct {
		ref       *authenticationv1.BoundObjectReference
		audiences []string
		given     attestations
		lifetime  int64
		want      string
	}{
		"of a validating webhook": {ref: webhook("ValidatingWebhookConfiguration", v1Version),
			audiences: []string{"a"}, given: apps},
		"of a mutating webhook": {ref: webhook("MutatingWebhookConfiguration", v1Version), audiences: []string{"a"},
			given: apps},
		"for two": {ref: webhook("MutatingWebhookConfiguration", v1Version), audiences: []string{"a", "b"},
			given: apps, want: fmt.Sprintf(oneAudience, `["a","b"]`)},
		"for none": {ref: webhook("MutatingWebhookConfiguration", v1Version), given: apps,
			want: fmt.Sprintf(oneAudience, "null")},
		"without attestations": {ref: webhook("MutatingWebhookConfiguration", v1Version), audiences: []string{"a"},
			want: "spec.attestations: Invalid value: null: webhook bound requests require exactly one " +
				"admissionReviewAPIGroups attestation"},
		"of another version": {ref: webhook("MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1beta1"),
			audiences: []string{"a"}, given: apps, want: without},
		"of another kind": {ref: webhook("ValidatingAdmissionPolicy", v1Version), audiences: []string{"a"},
			given: apps, want: without},
		"of nothing": {audiences: []string{"a"}, given: apps, want: without},
		"too short": {lifetime: 599, want: "spec.expirationSeconds: Invalid value: 599: may not specify a duration " +
			"less than 10 minutes"},
		"just long enough":  {lifetime: 600},
		"just short enough": {lifetime: 1 << 32},
		"too long": {lifetime: 1<<32 + 1, want: "spec.expirationSeconds: Invalid value: 4294967297: may not specify " +
			"a duration larger than 2^32 seconds"},
		"too short, for two": {ref: webhook("MutatingWebhookConfiguration", v1Version), audiences: []string{"a", "b"},
			given: apps, lifetime: 1, want: "[spec.expirationSeconds: Invalid value: 1: may not specify a duration " +
				"less than 10 minutes, " + fmt.Sprintf(oneAudience, `["a","b"]`) + "]"},
	} {
		if c.lifetime == 0 {
			c.lifetime = 3600
		}
		got := ""
		if errs := validateRequest(&authenticationv1.TokenRequestSpec{Audiences: c.audiences, Attestations: c.given,
			ExpirationSeconds: &c.lifetime, BoundObjectRef: c.ref}); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// The endpoint is of a namespaced kind, takes a TokenRequest of authentication.k8s.io/v1 and keeps
// the UID of the request, which is a precondition. Without a clock it has the machine's.
func TestKindOfTheEndpoint(t *testing.T) {
	e := NewTokenREST(Deps{})
	if _, ok := e.New().(*authenticationv1.TokenRequest); !ok || !e.NamespaceScoped() ||
		!e.PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() {
		t.Errorf("got %T, namespaced %v, keeps the UID %v; want a TokenRequest, true, true", e.New(),
			e.NamespaceScoped(), e.PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate())
	}
	if got := e.GroupVersionKind(corev1.SchemeGroupVersion).String(); got !=
		"authentication.k8s.io/v1, Kind=TokenRequest" {
		t.Errorf("got kind %s, want authentication.k8s.io/v1, Kind=TokenRequest", got)
	}
	if d := time.Since(e.deps.Now()); d < 0 || d > time.Minute {
		t.Errorf("got a clock that is %v off, want the machine's", d)
	}
}

// The token of a Pod's volume is good for a year where it is for the API server alone.
func TestWhichAudiencesAreTheServers(t *testing.T) {
	e := &TokenREST{Deps{Audiences: []string{api, "api.local"}}}
	for _, c := range []struct {
		given []string
		want  bool
	}{{nil, false}, {[]string{api}, true}, {[]string{api, "api.local"}, true}, {[]string{api, "vault"}, false},
		{[]string{"vault"}, false}} {
		if got := e.isOwnAudience(c.given); got != c.want {
			t.Errorf("%v: got %v, want %v", c.given, got, c.want)
		}
	}
}
