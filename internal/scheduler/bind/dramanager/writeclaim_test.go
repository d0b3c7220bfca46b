package dramanager

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// Claims are written over the line: first the finalizer, then allocation and reservation upon the
// version that came back. After a conflict it is done again on what is there now; what the server
// asks to do later, the ordinary client does. What the answer says counts at once.
func TestClaimsAreWrittenByAPIWriter(t *testing.T) {
	var calls []string
	version, refuse := byte('1'), 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows
		var whole runtime.Unknown
		var c resourceapi.ResourceClaim
		if whole.Unmarshal(body[len(protobufMagic):]) != nil || c.Unmarshal(whole.Raw) != nil ||
			whole.Kind != "ResourceClaim" || whole.APIVersion != "resource.k8s.io/v1" {
			t.Errorf("%q is no claim", body)
		}
		calls = append(calls, r.Method+" "+r.URL.Path+" on "+c.ResourceVersion)
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		if code := refuse; code != 0 {
			refuse = 0
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(code)
			if code == http.StatusConflict {
				answer, err := apiwriter.Encode(v1.SchemeGroupVersion.WithKind("Status"),
					&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict,
						Reason: metav1.StatusReasonConflict})
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(answer) // who is gone asks no more
			}
			return
		}
		version++
		c.ResourceVersion, c.ManagedFields = string(version), []metav1.ManagedFieldsEntry{{Manager: "scheduler"}}
		answer, err := apiwriter.Encode(claimKind, &c)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(answer)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	line := apiwriter.New(&rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	defer line.Close(t.Context())

	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod"}}
	free := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u",
		ResourceVersion: "1"}}
	has := &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "r", Driver: "d", Pool: "p", Device: "g"}}}}
	ordinary := fake.NewClientset(free)
	all := informers.NewSharedInformerFactory(ordinary, 0)
	claims, err := newClaimTracker(all.Resource().V1().ResourceClaims())
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{client: ordinary, claims: claims, Writer: line}
	bindClaim := func() *resourceapi.ResourceClaim {
		t.Helper()
		calls, version = nil, '1'
		plan := &dynamicresources.Plan{Node: "n",
			Claims: []dynamicresources.ClaimAllocation{{Claim: free, Allocation: has}}}
		if err := m.BindClaims(t.Context(), p, plan); err != nil {
			t.Fatal(err)
		}
		c := plan.Claims[0].Claim
		if c.Status.Allocation == nil || c.Status.Allocation.AllocationTimestamp == nil ||
			len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].UID != "pod" || !slices.Contains(c.Finalizers,
			resourceapi.Finalizer) || c.ManagedFields != nil {
			t.Errorf("got %+v, want 1 in ReservedFor, UID pod, Finalizers with Finalizer and no ManagedFields", c)
		}
		if known, err := claims.Get("ns", "c"); err != nil || known != c {
			t.Errorf("what was written is not what counts: %v, %v, want no error, %v", known, err, c)
		}
		return c
	}
	const at = "PUT /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"
	if c := bindClaim(); c.ResourceVersion != "3" || !slices.Equal(calls,
		[]string{at + " on 1", at + "/status on 2"}) ||
		len(ordinary.Actions()) != 0 {
		t.Errorf("version %s, calls %q, of the ordinary client %v", c.ResourceVersion, calls, ordinary.Actions())
	}
	refuse = http.StatusConflict
	if bindClaim(); !slices.Equal(calls, []string{at + " on 1", at + " on 1", at + "/status on 2"}) ||
		len(ordinary.Actions()) != 1 || ordinary.Actions()[0].GetVerb() != "get" {
		t.Errorf("after a conflict: calls %q, of the ordinary client %v", calls, ordinary.Actions())
	}
	ordinary.ClearActions()
	refuse = http.StatusTooManyRequests
	if bindClaim(); len(calls) != 2 || len(ordinary.Actions()) != 1 || ordinary.Actions()[0].GetVerb() != "update" {
		t.Errorf("after Retry-After: calls %q, of the ordinary client %v", calls, ordinary.Actions())
	}
}
