package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/gantry-project/gantry/test/ports"
)

// thingsHandler is an API server of one group version with one resource.
func thingsHandler(w http.ResponseWriter, req *http.Request) {
	version := metav1.GroupVersionForDiscovery{GroupVersion: "mortal.example.com/v1", Version: "v1"}
	group := metav1.APIGroup{Name: "mortal.example.com", Versions: []metav1.GroupVersionForDiscovery{version},
		PreferredVersion: version}
	var out any
	switch req.URL.Path {
	case "/apis":
		out = &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{group}}
	case "/apis/mortal.example.com":
		out = &group
	case "/apis/mortal.example.com/v1":
		out = &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.GroupVersion,
			APIResources: []metav1.APIResource{{Name: "things", SingularName: "thing", Kind: "Thing",
				Verbs: metav1.Verbs{"list"}}},
		}
	case "/apis/mortal.example.com/v1/things":
		out = map[string]any{"kind": "ThingList", "apiVersion": version.GroupVersion, "items": []any{}}
	default:
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// serveAggregatedAPI listens at an address; stop ends the server and its connections.
func serveAggregatedAPI(t *testing.T, address string) (at *net.TCPAddr, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(thingsHandler))
	s.Listener.Close()
	s.Listener = l
	s.StartTLS()
	t.Cleanup(s.Close)
	return l.Addr().(*net.TCPAddr), s.Close
}

// publish makes a Service with one endpoint. That is a name that looks like an address: slices of
// addresses take no loopback.
func publish(t *testing.T, c kubernetes.Interface, ns string, port int32) {
	t.Helper()
	mustCreate[*corev1.Service](t)(c.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "things"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{}))
	mustCreate[*discoveryv1.EndpointSlice](t)(c.DiscoveryV1().EndpointSlices(ns).Create(t.Context(),
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "things-here",
				Labels: map[string]string{discoveryv1.LabelServiceName: "things"}},
			AddressType: discoveryv1.AddressTypeFQDN,
			Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}},
		}, metav1.CreateOptions{}))
}

// The server behind a group dies and comes back: its requests are answered 503 meanwhile, its
// APIService says what was tried, discovery shows that this group alone is missing, and all of it
// heals by itself.
func TestAggregatedServerDiesAndComesBack(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	port, err := ports.Free() // it is listened on again
	if err != nil {
		t.Fatal(err)
	}
	address, stop := serveAggregatedAPI(t, fmt.Sprintf("127.0.0.1:%d", port))
	publish(t, c, ns, int32(address.Port))
	services := aggregatorclient.NewForConfigOrDie(s.InProcess(admin())).ApiregistrationV1().APIServices()
	const name = "v1.mortal.example.com"
	mustCreate[*apiregistrationv1.APIService](t)(services.Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "mortal.example.com", Version: "v1", GroupPriorityMinimum: 10, VersionPriority: 10,
			InsecureSkipTLSVerify: true,
			Service:               &apiregistrationv1.ServiceReference{Namespace: ns, Name: "things"},
		},
	}, metav1.CreateOptions{}))
	defer func() { _ = services.Delete(t.Context(), name, metav1.DeleteOptions{}) }()
	available := func(status apiregistrationv1.ConditionStatus, reason, message string) bool {
		for _, d := range mustCreate[*apiregistrationv1.APIService](t)(services.Get(t.Context(), name,
			metav1.GetOptions{})).Status.Conditions {
			if d.Type == apiregistrationv1.Available {
				return d.Status == status && d.Reason == reason && regexp.MustCompile(message).MatchString(d.Message)
			}
		}
		return false
	}
	list := func() error {
		return c.Discovery().RESTClient().Get().AbsPath("/apis/mortal.example.com/v1/things").Do(t.Context()).Error()
	}
	// discovered asks as kubectl does, and reports whether the group is there and which are
	// missing.
	discovered := func() (there bool, missing map[schema.GroupVersion]error) {
		_, lists, err := c.Discovery().ServerGroupsAndResources()
		if err != nil {
			var failed *discovery.ErrGroupDiscoveryFailed
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, want it to answer again in time", err)
			}
			missing = failed.Groups
		}
		apps := false
		for _, l := range lists {
			there = there || l.GroupVersion == "mortal.example.com/v1" && len(l.APIResources) == 1
			apps = apps || l.GroupVersion == "apps/v1" && len(l.APIResources) > 0
		}
		if !apps {
			t.Fatalf("apps/v1 is not discovered while %v are missing", missing)
		}
		return there, missing
	}
	lives := func() {
		t.Helper()
		eventually(t, "the group is available",
			func() bool { return available("True", "Passed", "^all checks passed$") })
		eventually(t, "its resource answers", func() bool { return list() == nil })
		eventually(t, "it is discovered", func() bool {
			there, missing := discovered()
			return there && len(missing) == 0
		})
	}
	lives()

	stop()
	if err := list(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("just after the death: %v, want 503", err)
	}
	// It is looked at every half minute, and when something of it changes.
	mustCreate[*apiregistrationv1.APIService](t)(services.Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"look":"now"}}}`), metav1.PatchOptions{}))
	eventually(t, "the condition says what was tried", func() bool {
		return available("False", "FailedDiscoveryCheck",
			`^failing or missing response from https://127\.0\.0\.1:\d+/apis/mortal\.example\.com/v1: Get `+
				`"https://127\.0\.0\.1:\d+/apis/mortal\.example\.com/v1": .*connection refused$`)
	})
	eventually(t, "requests are answered 503", func() bool { return apierrors.IsServiceUnavailable(list()) })
	eventually(t, "discovery names the one that is missing", func() bool {
		_, missing := discovered()
		return len(missing) == 1 && missing[schema.GroupVersion{Group: "mortal.example.com", Version: "v1"}] != nil
	})
	space := mustCreate[*corev1.NamespaceList](t)(c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}))
	if len(space.Items) == 0 {
		t.Error("other groups do not answer")
	}

	serveAggregatedAPI(t, address.String())
	lives()
}
