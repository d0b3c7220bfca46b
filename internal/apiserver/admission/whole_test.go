package admission_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	own "github.com/gantry-project/gantry/internal/apiserver/admission"
	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
	podjournal "github.com/gantry-project/gantry/internal/journal"
	testexpect "github.com/gantry-project/gantry/test/expect"
)

// asked writes down what an authorizer is asked, and allows the names given.
type asked struct {
	allows []string
	err    error
	log    []string
}

func (a *asked) Authorize(_ context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
	a.log = append(a.log, fmt.Sprintf("%s %s %s/%s/%s %s", r.GetUser().GetName(), r.GetVerb(), r.GetAPIGroup(),
		r.GetAPIVersion(), r.GetResource(), r.GetName()))
	for _, name := range a.allows {
		if name == r.GetName() || name == r.GetResource() {
			return authorizer.DecisionAllow, "", a.err
		}
	}
	return authorizer.DecisionDeny, "", a.err
}

// authorizer is it as an Authorizer.
func (a *asked) authorizer() authorizer.Authorizer { return authorizer.AuthorizerFunc(a.Authorize) }

// outcome is what a plugin says in whole; "" when it lets a request pass.
var outcome = testexpect.ErrorText

// request2 is a request for a resource of a group.
func request2(obj, old runtime.Object, group, resource, sub string, op admission.Operation,
	by user.Info) admission.Attributes {
	return admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, "ns", "r",
		schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, sub, op, nil, false, by)
}

func unplugged(t *testing.T, name string) admission.Interface {
	t.Helper()
	for _, p := range own.Plugins(own.Options{ProtectStorage: true}) {
		if p.Name == name {
			out, err := p.Factory(nil)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Fatalf("no plugin %s", name)
	return nil
}

func TestCertificateSigners(t *testing.T) {
	const group, requests = "certificates.k8s.io", "certificatesigningrequests"
	csr := func(signer string,
		change ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
		c := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	signed := func(c *certificatesv1.CertificateSigningRequest) { c.Status.Certificate = []byte("x") }
	condition := func(t certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
		return func(c *certificatesv1.CertificateSigningRequest) {
			c.Status.Conditions = append(c.Status.Conditions,
				certificatesv1.CertificateSigningRequestCondition{Type: t})
		}
	}
	failed, approved := condition(certificatesv1.CertificateFailed), condition(certificatesv1.CertificateApproved)
	podRequest := &certificatesv1.PodCertificateRequest{}
	podRequest.Spec.SignerName = "e.com/p"
	bundle := func(signer, text string) *certificatesv1.ClusterTrustBundle {
		return &certificatesv1.ClusterTrustBundle{Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer,
			TrustBundle: text}}
	}
	zoe := &user.DefaultInfo{Name: "zoe"}
	const update, create = admission.Update, admission.Create
	for name, c := range map[string]struct {
		plugin string
		a      admission.Attributes
		allows string
		err    error
		want   string
		asks   string // of which verb on which signer; "": of none
	}{
		"approve": {plugin: "CertificateApproval", allows: "e.com/a", asks: "approve e.com/a",
			a: request2(csr("e.com/b"), csr("e.com/a"), group, requests, "approval", update, zoe)},
		"approve for a domain": {plugin: "CertificateApproval", allows: "e.com/*",
			asks: "approve e.com/a, approve e.com/*",
			a:    request2(csr("e.com/a"), csr("e.com/a"), group, requests, "approval", update, zoe)},
		"approve for another": {plugin: "CertificateApproval", allows: "e.com/b",
			asks: "approve e.com/a, approve e.com/*",
			a:    request2(csr("e.com/b"), csr("e.com/a"), group, requests, "approval", update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to approve ` +
				`requests with signerName "e.com/a"`},
		"nobody can say": {plugin: "CertificateApproval", allows: "e.com/a", err: errors.New("down"),
			asks: "approve e.com/a, approve e.com/*",
			a:    request2(csr("e.com/a"), csr("e.com/a"), group, requests, "approval", update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to approve ` +
				`requests with signerName "e.com/a"`},
		"approve another kind": {plugin: "CertificateApproval",
			a: request2(podRequest, podRequest, group, requests, "approval", update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: expected type ` +
				`CertificateSigningRequest, got: *v1.PodCertificateRequest`},
		"no approval": {plugin: "CertificateApproval", a: request2(csr("a"), csr("a"), group, requests,
			"status", update, zoe)},
		"another resource": {plugin: "CertificateApproval", a: request2(csr("a"), csr("a"), group, "others",
			"approval", update, zoe)},
		"sign": {plugin: "CertificateSigning", allows: "e.com/a", asks: "sign e.com/a",
			a: request2(csr("e.com/b", signed), csr("e.com/a"), group, requests, "status", update, zoe)},
		"sign for another": {plugin: "CertificateSigning", allows: "e.com/b", asks: "sign e.com/a, sign e.com/*",
			a: request2(csr("e.com/b", signed), csr("e.com/a"), group, requests, "status", update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to sign ` +
				`requests with signerName "e.com/a"`},
		"say that it failed": {plugin: "CertificateSigning", asks: "sign e.com/a, sign e.com/*",
			a: request2(csr("e.com/a", approved, failed), csr("e.com/a", approved), group, requests, "status",
				update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to sign ` +
				`requests with signerName "e.com/a"`},
		"it failed before": {plugin: "CertificateSigning",
			a: request2(csr("e.com/a", failed, approved), csr("e.com/a", failed), group, requests, "status", update,
				zoe)},
		"nothing is signed": {plugin: "CertificateSigning",
			a: request2(csr("e.com/a", approved), csr("e.com/a"), group, requests, "status", update, zoe)},
		"sign another kind": {plugin: "CertificateSigning",
			a: request2(bundle("", ""), csr("e.com/a"), group, requests, "status", update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: expected type ` +
				`CertificateSigningRequest, got: *v1.ClusterTrustBundle`},
		"sign what was another kind": {plugin: "CertificateSigning",
			a: request2(csr("e.com/a"), bundle("", ""), group, requests, "status", update, zoe),
			want: `certificatesigningrequests.certificates.k8s.io "r" is forbidden: expected type ` +
				`CertificateSigningRequest, got: *v1.CertificateSigningRequest`},
		"change what is asked": {plugin: "CertificateSigning",
			a: request2(csr("a", signed), csr("a"), group, requests, "", update, zoe)},
		"sign for a Pod": {plugin: "CertificateSigning", allows: "e.com/*", asks: "sign e.com/p, sign e.com/*",
			a: request2(podRequest, podRequest, group, "podcertificaterequests", "status", update, zoe)},
		"sign for a Pod without right": {plugin: "CertificateSigning", asks: "sign e.com/p, sign e.com/*",
			a: request2(podRequest, podRequest, group, "podcertificaterequests", "status", update, zoe),
			want: `podcertificaterequests.certificates.k8s.io "r" is forbidden: user not permitted to sign requests ` +
				`with signerName "e.com/p"`},
		"no signature for a Pod": {plugin: "CertificateSigning",
			a: request2(podRequest, podRequest, group, "podcertificaterequests", "", update, zoe)},
		"attest": {plugin: "ClusterTrustBundleAttest", allows: "e.com/a", asks: "attest e.com/a",
			a: request2(bundle("e.com/a", "x"), nil, group, "clustertrustbundles", "", create, zoe)},
		"attest without right": {plugin: "ClusterTrustBundleAttest", asks: "attest e.com/a, attest e.com/*",
			a: request2(bundle("e.com/a", "x"), bundle("e.com/a", "y"), group, "clustertrustbundles", "", update,
				zoe),
			want: `clustertrustbundles.certificates.k8s.io "r" is forbidden: user not permitted to attest for ` +
				`signerName "e.com/a"`},
		"attest nothing new": {plugin: "ClusterTrustBundleAttest",
			a: request2(bundle("e.com/a", "x"), bundle("e.com/a", "x"), group, "clustertrustbundles", "", update, zoe)},
		"of no signer": {plugin: "ClusterTrustBundleAttest",
			a: request2(bundle("", "x"), nil, group, "clustertrustbundles", "", create, zoe)},
		"no bundle": {plugin: "ClusterTrustBundleAttest",
			a: request2(csr("a"), nil, group, "clustertrustbundles", "", create, zoe),
			want: `clustertrustbundles.certificates.k8s.io "r" is forbidden: expected type ClusterTrustBundle, got: ` +
				`*v1.CertificateSigningRequest`},
		"attest another resource": {plugin: "ClusterTrustBundleAttest",
			a: request2(csr("a"), nil, group, requests, "", create, zoe)},
	} {
		p, log := unplugged(t, c.plugin), &asked{allows: []string{c.allows}, err: c.err}
		if err := p.(admission.InitializationValidator).ValidateInitialization(); outcome(err) !=
			"certificates admission: no authorizer" {
			t.Errorf("%s, without an authorizer: got %v", name, err)
		}
		p.(initializer.WantsAuthorizer).SetAuthorizer(log.authorizer())
		if err := p.(admission.InitializationValidator).ValidateInitialization(); err != nil {
			t.Errorf("%s: got %v, want none", name, err)
		}
		if !p.Handles(c.a.GetOperation()) || p.Handles(admission.Connect) || p.Handles(create) != (c.plugin ==
			"ClusterTrustBundleAttest") {
			t.Errorf("%s: handles other operations", name)
		}
		if got := outcome(p.(admission.ValidationInterface).Validate(t.Context(), c.a, nil)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		var asks []string
		for _, ask := range strings.Split(c.asks, ", ") {
			if verb, signer, ok := strings.Cut(ask, " "); ok {
				asks = append(asks, "zoe "+verb+" certificates.k8s.io/*/signers "+signer)
			}
		}
		if got, want := strings.Join(log.log, ", "), strings.Join(asks, ", "); got != want {
			t.Errorf("%s: asked %s, want %s", name, got, want)
		}
	}
}

func TestCertificateSubjects(t *testing.T) {
	const client = certificatesv1.KubeAPIServerClientSignerName
	csr := func(signer string, text []byte) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Request: text}}
	}
	masters := request(t, "dev", "system:masters")
	block, _ := pem.Decode(masters)
	typed := func(kind string, data []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
	}
	_, broken := x509.ParseCertificateRequest([]byte("x"))
	say := `certificatesigningrequests.certificates.k8s.io "r" is forbidden: `
	noBlock := say + "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"
	for name, c := range map[string]struct {
		obj      runtime.Object
		resource string
		sub      string
		want     string
	}{
		"its second group": {obj: csr(client, masters),
			want: say + "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"},
		"another signer":   {obj: csr("e.com/a", masters)},
		"of a subresource": {obj: csr(client, masters), sub: "status"},
		"another resource": {obj: csr(client, masters), resource: "others"},
		"another kind":     {obj: &corev1.Pod{}},
		"no PEM":           {obj: csr(client, []byte("x")), want: noBlock},
		"another block":    {obj: csr(client, typed("CERTIFICATE", block.Bytes)), want: noBlock},
		"no request": {obj: csr(client, typed("CERTIFICATE REQUEST", []byte("x"))), want: say +
			"failed to parse CSR: " + broken.Error()},
		"no such group": {obj: csr(client, request(t, "dev"))},
	} {
		if c.resource == "" {
			c.resource = "certificatesigningrequests"
		}
		p := unplugged(t, "CertificateSubjectRestriction")
		a := request2(c.obj, nil, "certificates.k8s.io", c.resource, c.sub, admission.Create, nil)
		if got := outcome(p.(admission.ValidationInterface).Validate(t.Context(), a, nil)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if !p.Handles(admission.Create) || p.Handles(admission.Update) {
			t.Errorf("%s: it handles other operations than Create", name)
		}
	}
}

// Each figure of a LimitRange against what a container asks, at its bound and beyond.
func TestLimitRangerBounds(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		kind           corev1.LimitType
		min, max, rate string
		request, limit string
		want           string
	}{
		{kind: "Container", min: "2", request: "2", limit: none},
		{kind: "Container", min: "2", request: "2", limit: "2"},
		{kind: "Container", min: "2", request: "1999m",
			want: "minimum cpu usage per Container is 2, but request is 1999m"},
		{kind: "Container", min: "2", request: "2", limit: "1999m",
			want: "minimum cpu usage per Container is 2, but limit is 1999m"},
		{kind: "Container", min: "2", limit: "3",
			want: "minimum cpu usage per Container is 2.  No request is specified"},
		{kind: "Container", max: "2", request: "2", limit: "2"},
		{kind: "Container", max: "2", limit: "2"},
		{kind: "Container", max: "2", request: "1", limit: "2001m",
			want: "maximum cpu usage per Container is 2, but limit is 2001m"},
		{kind: "Container", max: "2", request: "2001m", limit: "2",
			want: "maximum cpu usage per Container is 2, but request is 2001m"},
		{kind: "Container", max: "2", request: "1",
			want: "maximum cpu usage per Container is 2.  No limit is specified"},
		{kind: "Container", rate: "2", request: "1", limit: "2"},
		{kind: "Container", rate: "1500m", request: "1", limit: "1500m"},
		{kind: "Container", rate: "1500m", request: "1", limit: "1501m",
			want: "cpu max limit to request ratio per Container is 1500m, but provided ratio is 1.501000"},
		{kind: "Container", rate: "2", request: "0", limit: "2",
			want: "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{kind: "Container", rate: "2", limit: "2",
			want: "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{kind: "Container", rate: "2", request: "1",
			want: "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		{kind: "Container", rate: "2", request: "1", limit: "0",
			want: "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		// what does not fit thousandths is compared as it is
		{kind: "Container", rate: "2", request: "4Ei", limit: "6Ei"},
		{kind: "Container", rate: "2", request: "2Ei", limit: "6Ei",
			want: "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
		{kind: "Container", rate: "2", request: "1", limit: "1Ei",
			want: "cpu max limit to request ratio per Container is 2, but provided ratio is " +
				"1152921504606846976.000000"},
		{kind: "Container", rate: "1Ei", request: "1", limit: "1Ei"},
		{kind: "Container", min: "2", max: "1", request: "1", limit: "2",
			want: "[minimum cpu usage per Container is 2, but request is 1, maximum cpu usage per Container is 1, " +
				"but limit is 2]"},
		{kind: "Pod", min: "2", request: "1", want: "minimum cpu usage per Pod is 2, but request is 1"},
		{kind: "Pod", max: "2", limit: "3", want: "maximum cpu usage per Pod is 2, but limit is 3"},
		{kind: "Pod", max: "2", request: "2", limit: "2"},
		{kind: "PersistentVolumeClaim", min: "2", max: "1", request: "1", limit: "5"}, // of no Pod
	} {
		item := corev1.LimitRangeItem{Type: c.kind}
		for to, q := range map[*corev1.ResourceList]string{&item.Min: c.min, &item.Max: c.max,
			&item.MaxLimitRequestRatio: c.rate} {
			if q != none {
				*to = list("cpu", q)
			}
		}
		var need corev1.ResourceRequirements
		if c.request != none {
			need.Requests = list("cpu", c.request)
		}
		if c.limit != none {
			need.Limits = list("cpu", c.limit)
		}
		for _, init := range []bool{false, true} {
			if init && c.kind != "Container" {
				continue
			}
			o := pod(func(p *corev1.Pod) {
				p.Spec.InitContainers, p.Spec.Overhead = nil, list("cpu", "100")
				p.Spec.Containers[0].Resources = need
				if init {
					p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
				}
			})
			ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lr"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
			want := c.want
			if want != "" {
				want = `pods "p" is forbidden: ` + want
			}
			if got := outcome(run(t, plugin(t, "LimitRanger", ranges), attributesCase{obj: o})); got != want {
				t.Errorf("%+v, init %t:\n got %s\nwant %s", c, init, got, want)
			}
		}
	}
}

func TestLimitRangerOfClaims(t *testing.T) {
	claim := func(request, limit string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}
		if request != "" {
			c.Spec.Resources.Requests = list("storage", request)
		}
		if limit != "" {
			c.Spec.Resources.Limits = list("storage", limit)
		}
		return c
	}
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lr"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Container", Max: list("storage", "1")},
			{Type: "Pod", Min: list("storage", "100Ti")},
			{Type: "PersistentVolumeClaim", Min: list("storage", "1Gi"), Max: list("storage", "2Gi")}}}}
	p := plugin(t, "LimitRanger", ranges)
	lacks := "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage " +
		"usage per PersistentVolumeClaim is 2Gi.  No request is specified]"
	for _, c := range []struct{ request, limit, want string }{{"1Gi", "", ""}, {"2Gi", "", ""}, {"2Gi", "9Gi", ""},
		{"1023Mi", "", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1023Mi"},
		{"1Gi", "1", "minimum storage usage per PersistentVolumeClaim is 1Gi, but limit is 1"},
		{"3Gi", "", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"}, {"", "", lacks}} {
		want := c.want
		if want != "" {
			want = `persistentvolumeclaims "x" is forbidden: ` + want
		}
		if got := outcome(run(t, p, attributesCase{obj: claim(c.request, c.limit)})); got != want {
			t.Errorf("%s, %s:\n got %s\nwant %s", c.request, c.limit, got, want)
		}
	}
	// which writes it looks at
	gone := metav1.Now()
	bad, leaving := claim("", ""), claim("", "")
	leaving.DeletionTimestamp = &gone
	big := pod(func(p *corev1.Pod) { p.Spec.InitContainers = nil })
	for name, c := range map[string]struct {
		w       attributesCase
		refused bool
	}{
		"a claim changes":     {attributesCase{obj: bad, old: bad}, true},
		"it leaves":           {attributesCase{obj: leaving, old: bad}, false},
		"its status":          {attributesCase{obj: bad, old: bad, sub: "status"}, false},
		"a Pod comes":         {attributesCase{obj: big}, true},
		"it changes":          {attributesCase{obj: big, old: big}, false},
		"it is resized":       {attributesCase{obj: big, old: big, sub: "resize"}, true},
		"it is bound":         {attributesCase{obj: big, sub: "binding"}, false},
		"a Pod's template":    {attributesCase{obj: big, resource: "podtemplates"}, false},
		"another kind":        {attributesCase{obj: account("a")}, false},
		"a claim that leaves": {attributesCase{obj: leaving}, true}, // it is new all the same
	} {
		if got := outcome(run(t, p, c.w)); (got != "") != c.refused {
			t.Errorf("%s: got %s, refused: want %t", name, got, c.refused)
		}
	}
}

// The LimitRanges of a namespace are applied in the order of their names; each fills what is
// missing.
func TestLimitRangersDefaultsInOrder(t *testing.T) {
	ranges := func(ns, name, cpu string, kind corev1.LimitType) *corev1.LimitRange {
		return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: kind,
				DefaultRequest: list("cpu", cpu, "memory", cpu), Default: list("cpu", cpu)}}}}
	}
	p := plugin(t, "LimitRanger", ranges("ns", "b", "2", "Container"), ranges("ns", "a", "1", "Container"),
		ranges("ns", "0", "9", "Pod"), ranges("other", "0", "7", "Container"))
	o := pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"mine": "stays"} })
	if err := run(t, p, attributesCase{obj: o}); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(o.Spec.Containers, o.Spec.InitContainers...) {
		got := fmt.Sprint(c.Resources.Requests.Cpu(), c.Resources.Requests.Memory(), c.Resources.Limits.Cpu(),
			len(c.Resources.Limits))
		if got != "1 1 1 1" {
			t.Errorf("%s: got %s, want 1 each", c.Name, got)
		}
	}
	want := "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c; cpu, memory " +
		"request for init container i; cpu limit for init container i"
	if got := o.Annotations["kubernetes.io/limit-ranger"]; got != want || o.Annotations["mine"] != "stays" {
		t.Errorf("got %q, want %q", o.Annotations, want)
	}
	// nothing is set where nothing is to be had, nor in a Pod that is resized
	plain := plugin(t, "LimitRanger", ranges("ns", "0", "9", "Pod"))
	o = pod()
	if err := run(t, plain, attributesCase{obj: o}); err != nil || o.Annotations != nil ||
		o.Spec.Containers[0].Resources.Requests != nil {
		t.Errorf("got %v, %v, want no change", o, err)
	}
	if err := run(t, p, attributesCase{obj: o, old: o, sub: "resize"}); err != nil || o.Annotations != nil {
		t.Errorf("resized: got %v, %v, want no change", o.Annotations, err)
	}
}

func TestLimitRangerAndDefaultsWantInformers(t *testing.T) {
	for name, want := range map[string]string{"LimitRanger": "limit ranger: no informer of LimitRanges",
		"DefaultStorageClass": "", "DefaultIngressClass": ""} {
		err := unplugged(t, name).(admission.InitializationValidator).ValidateInitialization()
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// nodeWrite is a node's request; its name is n1.
func nodeWrite(obj, old runtime.Object, gvr, sub string, op admission.Operation, name string) admission.Attributes {
	var r schema.GroupVersionResource
	r.Group, r.Resource, _ = strings.Cut(gvr, "/")
	ns := "ns"
	if o, ok := obj.(metav1.Object); ok && o.GetNamespace() != "" {
		ns = o.GetNamespace()
	}
	return admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, ns, name, r, sub, op, nil, false,
		&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}})
}

func TestNodeRestrictionOfAllKinds(t *testing.T) {
	const create, update, remove = admission.Create, admission.Update, admission.Delete
	bound := func(name, to string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Name, p.UID, p.Spec.NodeName, p.Spec.ServiceAccountName = name, types.UID(name+"-uid"), to, "sa"
		})
	}
	n := func(change ...func(*corev1.Node)) *corev1.Node {
		out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1-uid"}}
		for _, f := range change {
			f(out)
		}
		return out
	}
	labelled := func(pairs ...string) *corev1.Node {
		out := n()
		out.Labels = map[string]string{}
		for _, p := range pairs {
			k, v, _ := strings.Cut(p, "=")
			out.Labels[k] = v
		}
		return out
	}
	owned := n(func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} })
	slice := func(node string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{}
		if node != "" {
			s.Spec.NodeName = &node
		}
		return s
	}
	claim := func(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	size := claim(func(c *corev1.PersistentVolumeClaim) {
		c.ResourceVersion, c.ManagedFields = "2", []metav1.ManagedFieldsEntry{{}}
		c.Status.Capacity = list("storage", "1")
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{}}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": "x"}
	})
	lease := func(ns, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	told := func(refs ...podjournal.Ref) *journal.PodJournal {
		j := &journal.PodJournal{}
		for _, r := range refs {
			j.Entries = append(j.Entries, podjournal.Entry{Ref: r})
		}
		return j
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	configured := n()
	configured.Spec.ConfigSource = &corev1.NodeConfigSource{}
	named := eviction.DeepCopy()
	named.Name = "theirs"
	forbid := func(what, text string) string { return what + " is forbidden: " + text }
	for name, c := range map[string]struct {
		a    admission.Attributes
		want string
	}{
		"a Node that is no Node": {nodeWrite(pod(), nil, "/nodes", "", create, "n1"),
			forbid(`nodes "n1"`, "unexpected type *v1.Pod")},
		"a Node of generated name": {nodeWrite(n(), nil, "/nodes", "", create, ""), ""},
		"another's": {nodeWrite(n(), n(), "/nodes", "", update, "n2"),
			forbid(`nodes "n2"`, `node "n1" is not allowed to modify node "n2"`)},
		"made with owners": {nodeWrite(owned, nil, "/nodes", "", create, "n1"), ""},
		"made with a source of configuration": {nodeWrite(configured, nil, "/nodes", "", create, "n1"),
			forbid(`nodes "n1"`, `node "n1" is not allowed to create pods with a non-nil configSource`)},
		"given a source of configuration": {nodeWrite(configured, n(), "/nodes", "", update, "n1"),
			forbid(`nodes "n1"`, `node "n1" is not allowed to update configSource to a new non-nil configSource`)},
		"its source of configuration stays": {nodeWrite(configured, configured, "/nodes", "", update, "n1"), ""},
		"given owners": {nodeWrite(owned, n(), "/nodes", "", update, "n1"),
			forbid(`nodes "n1"`, `node "n1" is not allowed to modify ownerReferences`)},
		"its owners stay": {nodeWrite(owned, owned, "/nodes", "", update, "n1"), ""},
		"deletes itself":  {nodeWrite(nil, n(), "/nodes", "", remove, "n1"), ""},
		"changed to another": {nodeWrite(pod(), n(), "/nodes", "", update, "n1"),
			forbid(`nodes "n1"`, "unexpected type *v1.Pod")},
		"changed from another": {nodeWrite(n(), pod(), "/nodes", "", update, "n1"),
			forbid(`nodes "n1"`, "unexpected type *v1.Node")},
		"labels that are its own": {nodeWrite(labelled("kubernetes.io/hostname=n1", "topology.kubernetes.io/zone=z",
			"topology.kubernetes.io/region=r", "failure-domain.beta.kubernetes.io/zone=z",
			"failure-domain.beta.kubernetes.io/region=r", "beta.kubernetes.io/instance-type=i",
			"node.kubernetes.io/instance-type=i", "kubernetes.io/os=linux", "kubernetes.io/arch=a",
			"beta.kubernetes.io/os=linux", "beta.kubernetes.io/arch=a", "node.kubernetes.io/windows-build=1",
			"kubelet.kubernetes.io/a=b", "x.kubelet.kubernetes.io/a=b", "node.kubernetes.io/a=b",
			"y.node.kubernetes.io/a=b", "plain=1", "notk8s.io/a=b", "e.com/a=b"), nil, "/nodes", "", create, "n1"), ""},
		"labels that are not": {nodeWrite(labelled("k8s.io/a=b", "x.k8s.io/a=b", "kubernetes.io/a=b",
			"xnode.kubernetes.io/a=b"),
			nil, "/nodes", "", create, "n1"), forbid(`nodes "n1"`,
			`node "n1" is not allowed to set the following labels: `+
				"k8s.io/a, kubernetes.io/a, x.k8s.io/a, xnode.kubernetes.io/a")},
		"labels that come, go and change": {nodeWrite(labelled("k8s.io/a=b", "k8s.io/same=s", "k8s.io/c=2"),
			labelled("k8s.io/d=b", "k8s.io/same=s", "k8s.io/c=1"), "/nodes", "", update, "n1"),
			forbid(`nodes "n1"`, "is not allowed to modify labels: k8s.io/a, k8s.io/c, k8s.io/d")},

		"a lease by name": {nodeWrite(lease("kube-node-lease", "n1"), lease("kube-node-lease", "n1"),
			"coordination.k8s.io/leases", "", update, "n1"), ""},
		"a lease called another": {nodeWrite(lease("kube-node-lease", "n1"), nil, "coordination.k8s.io/leases", "",
			update, "n2"),
			forbid(`leases.coordination.k8s.io "n2"`,
				"can only access node lease with the same name as the requesting node")},
		"a lease without a name": {nodeWrite(lease("kube-node-lease", "n1"), nil, "coordination.k8s.io/leases", "",
			create, ""), ""},
		"a CSINode's name": {nodeWrite(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, nil,
			"storage.k8s.io/csinodes", "", update, "n2"), forbid(`csinodes.storage.k8s.io "n2"`,
			"can only access CSINode with the same name as the requesting node")},
		"a slice of no node": {nodeWrite(slice(""), nil, "resource.k8s.io/resourceslices", "", create, "s"),
			forbid(`resourceslices.resource.k8s.io "s"`,
				"can only create ResourceSlice with the same NodeName as the requesting node")},
		"deletes its slice": {nodeWrite(nil, slice("n1"), "resource.k8s.io/resourceslices", "", remove, "s"), ""},
		"deletes another's slice": {nodeWrite(nil, slice("n2"), "resource.k8s.io/resourceslices", "", remove, "s"),
			forbid(`resourceslices.resource.k8s.io "s"`,
				"can only delete ResourceSlice with the same NodeName as the requesting node")},
		"deletes a slice of no node": {nodeWrite(nil, slice(""), "resource.k8s.io/resourceslices", "", remove, "s"),
			forbid(`resourceslices.resource.k8s.io "s"`,
				"can only delete ResourceSlice with the same NodeName as the requesting node")},
		"changes its slice": {nodeWrite(slice("n1"), slice("n1"), "resource.k8s.io/resourceslices", "", update,
			"s"), ""},

		"the size of a claim": {nodeWrite(size, claim(), "/persistentvolumeclaims", "status", update, "c"), ""},
		"the phase of a claim": {nodeWrite(claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = "Lost" }),
			claim(),
			"/persistentvolumeclaims", "status", update, "c"), forbid(`persistentvolumeclaims "c"`,
			`node "n1" is not allowed to update fields other than status.quantity and status.conditions`)},

		"deletes a Pod that is gone": {nodeWrite(nil, bound("no", "n1"), "/pods", "", remove, "no"),
			`pods "no" not found`},
		"status deleted": {nodeWrite(nil, bound("mine", "n1"), "/pods", "status", remove, "mine"),
			forbid(`pods "mine"`, `unexpected operation "DELETE", node "n1" can only update pod status`)},
		"status of another kind": {nodeWrite(n(), bound("mine", "n1"), "/pods", "status", update, "mine"),
			forbid(`pods "mine"`, "unexpected type *v1.Node")},
		"status of what was another kind": {nodeWrite(bound("mine", "n1"), n(), "/pods", "status", update, "mine"),
			forbid(`pods "mine"`, "unexpected type *v1.Pod")},
		"evicts its Pod": {nodeWrite(eviction, nil, "/pods", "eviction", create, "mine"), ""},
		"evicts by the eviction's name": {nodeWrite(named, nil, "/pods", "eviction", create, ""),
			forbid(`pods "theirs"`, "node n1 can only evict pods with spec.nodeName set to itself")},
		"evicts nobody": {nodeWrite(eviction, nil, "/pods", "eviction", create, ""),
			forbid(`pods "Unknown"`, "could not determine pod from request data")},
		"evicts one who is gone": {nodeWrite(eviction, nil, "/pods", "eviction", create, "no"), `pods "no" not found`},
		"evicts by update": {nodeWrite(eviction, eviction, "/pods", "eviction", update, "mine"),
			forbid(`pods "mine"`, "unexpected operation UPDATE")},
		"evicts by a Node": {nodeWrite(n(), nil, "/pods", "eviction", create, "mine"),
			forbid(`pods "mine"`, "unexpected type *v1.Node")},
		"a Pod that is no Pod": {nodeWrite(n(), nil, "/pods", "", create, "mine"),
			forbid(`pods "mine"`, "unexpected type *v1.Node")},

		"tells of its Pods and itself": {nodeWrite(told(podjournal.Ref{Namespace: "ns", Name: "mine"},
			podjournal.Ref{Kind: "Pod", Namespace: "ns", Name: "mine", UID: "mine-uid"},
			podjournal.Ref{Namespace: "ns", Name: "no"}, podjournal.Ref{Namespace: "ns", Name: "theirs",
				UID: "earlier"},
			podjournal.Ref{Kind: "Node", Name: "n1"}), nil, journalResource(), "", create, ""), ""},
		"tells of another node": {nodeWrite(told(podjournal.Ref{Kind: "Node", Name: "n1"},
			podjournal.Ref{Kind: "Node", Name: "n2"}),
			nil, journalResource(), "", create, "j"),
			`entries[1].ref: node "n1" can only tell of itself, not of node "n2"`},
		"tells of another's Pod": {nodeWrite(told(podjournal.Ref{Namespace: "ns", Name: "mine"},
			podjournal.Ref{Namespace: "ns", Name: "theirs", UID: "theirs-uid"}), nil, journalResource(), "", create,
			"j"),
			`entries[1].ref: node "n1" can only tell of Pods bound to it, and ns/theirs is bound to "n2"`},
		"tells of a Job": {nodeWrite(told(podjournal.Ref{Kind: "Job", Name: "x"}), nil, journalResource(), "",
			create, "j"),
			`entries[0].ref.kind: a node can only tell of itself and of Pods, not of a Job`},
		"tells of nothing it knows": {nodeWrite(n(), nil, journalResource(), "", create, "j"), ""},

		"what nobody guards": {nodeWrite(account("a"), nil, "/secrets", "", create, "a"), ""},
		"an account":         {nodeWrite(account("a"), nil, "/serviceaccounts", "", create, "a"), ""},
		"a token's change":   {nodeWrite(account("a"), nil, "/serviceaccounts", "token", update, "a"), ""},
	} {
		p := plugin(t, "NodeRestriction", n(), bound("mine", "n1"), bound("theirs", "n2"))
		got := outcome(p.(admission.MutationInterface).Admit(t.Context(), c.a, nil))
		if c.want == "" && got != "" || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func journalResource() string { return journal.GroupVersion.Group + "/" + journal.Resource }

func TestNodesPodCertificateRequests(t *testing.T) {
	sa := account("sa")
	sa.UID = "sa-uid"
	p := pod(func(p *corev1.Pod) {
		p.UID, p.Spec.NodeName, p.Spec.ServiceAccountName = "p-uid", "n1", "sa"
		p.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a.b/c"}}}}}}}
	})
	other, static := p.DeepCopy(), p.DeepCopy()
	other.Name, other.Spec.NodeName = "other", "n2"
	static.Name, static.Annotations = "static", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1-uid"}}
	type spec = certificatesv1.PodCertificateRequestSpec
	for name, c := range map[string]struct {
		change func(*spec)
		sub    string
		op     admission.Operation
		obj    runtime.Object
		want   string
	}{
		"its Pod's": {want: ""},
		"another node's": {change: func(s *spec) { s.NodeName = "n2" },
			want: `PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`},
		"a node of old": {change: func(s *spec) { s.NodeUID = "old" },
			want: `PodCertificateRequest for pod "ns/p" names node UID "old", inconsistent with the ` +
				`running node ("n1-uid")`},
		"a Pod of old": {change: func(s *spec) { s.PodUID = "old" },
			want: `PodCertificateRequest for pod "ns/p" contains pod UID ("old") which differs ` +
				`from running pod "p-uid"`},
		"another node's Pod": {change: func(s *spec) { s.PodName = "other" },
			want: `pod "ns/other" is not running on node "n1" named in the PodCertificateRequest`},
		"a static Pod": {change: func(s *spec) { s.PodName = "static" },
			want: `pod "ns/static" is a mirror pod`},
		"a missing Pod": {change: func(s *spec) { s.PodName = "no" }, want: `pods "no" not found`},
		"as another": {change: func(s *spec) { s.ServiceAccountName = "x" },
			want: `PodCertificateRequest for pod "ns/p" contains serviceAccountName ("x") that differs from running ` +
				`pod ("sa")`},
		"as one of old": {change: func(s *spec) { s.ServiceAccountUID = "old" },
			want: `PodCertificateRequest for pod "ns/p" names service account UID "old", which differs from the ` +
				`running service account ("sa-uid")`},
		"of a signer that no volume names": {change: func(s *spec) { s.SignerName = "a.b/other" },
			want: `pod "ns/p" does not mount a podCertificate projected volume for signer "a.b/other"`},
		"a change":       {op: admission.Update, want: "unexpected operation UPDATE"},
		"a status":       {sub: "status", want: "unexpected subresource status"},
		"something else": {obj: n, want: "unexpected type *v1.Node"},
	} {
		r := &certificatesv1.PodCertificateRequest{Spec: spec{NodeName: "n1", NodeUID: "n1-uid", PodName: "p",
			SignerName:         "a.b/c",
			PodUID:             "p-uid",
			ServiceAccountName: "sa", ServiceAccountUID: "sa-uid"}}
		if c.change != nil {
			c.change(&r.Spec)
		}
		if c.obj == nil {
			c.obj = r
		}
		if c.op == "" {
			c.op = admission.Create
		}
		a := nodeWrite(c.obj, nil, "certificates.k8s.io/podcertificaterequests", c.sub, c.op, "r")
		got := outcome(plugin(t, "NodeRestriction", n, p, other, static,
			sa).(admission.MutationInterface).Admit(t.Context(),
			a, nil))
		if c.want == "" && got != "" || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	for missing, want := range map[string]string{
		"node": `while retrieving node "n1" named in the PodCertificateRequest: nodes "n1" not found`,
		"account": `while retrieving service account "ns/sa" named in the PodCertificateRequest: ` +
			`serviceaccounts "sa" not found`} {
		objects := []runtime.Object{p, n}
		if missing == "node" {
			objects = []runtime.Object{p, sa}
		}
		r := &certificatesv1.PodCertificateRequest{Spec: spec{NodeName: "n1", NodeUID: "n1-uid", PodName: "p",
			SignerName:         "a.b/c",
			PodUID:             "p-uid",
			ServiceAccountName: "sa", ServiceAccountUID: "sa-uid"}}
		a := nodeWrite(r, nil, "certificates.k8s.io/podcertificaterequests", "", admission.Create, "r")
		if got := outcome(plugin(t, "NodeRestriction", objects...).(admission.MutationInterface).Admit(t.Context(), a,
			nil)); got != want {
			t.Errorf("no %s: got %s, want %s", missing, got, want)
		}
	}
}

// A node asks for audiences that its Pod's volumes ask for, in each way that a volume can, and for
// those that it has a right to.
func TestNodesTokenAudiences(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.UID, p.Spec.NodeName = "p-uid", "n1"
		volume := func(name string, source corev1.VolumeSource) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		}
		volume("projected",
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "projected"}}}}})
		volume("csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d1"}})
		volume("gone", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "no"}})
		volume("claim",
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})
		volume("e", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
		for _, name := range []string{"unbound", "lost", "nfs", "missing"} {
			volume(name,
				corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
		}
	})
	driver := func(name string, audiences ...string) *storagev1.CSIDriver {
		d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range audiences {
			d.Spec.TokenRequests = append(d.Spec.TokenRequests, storagev1.TokenRequest{Audience: a})
		}
		return d
	}
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	pv := func(name, driver string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if driver != "" {
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		}
		return v
	}
	objects := []runtime.Object{p, driver("d1", "csi-1", "csi-2"), driver("d2", "bound"), driver("d3", "ephemeral"),
		driver("d4", "unused"), claim("c", "v2"), pv("v2", "d2"), claim("p-e", "v3"), pv("v3", "d3"),
		claim("unbound", ""),
		claim("lost", "no"), claim("nfs", "v4"), pv("v4", "")}
	ref := authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p-uid"}
	refused := func(aud string) string {
		return fmt.Sprintf(`system:node:n1 is not authorized to request tokens for audience %q`, aud)
	}
	for name, c := range map[string]struct {
		audiences string
		change    func(*authenticationv1.BoundObjectReference)
		none      bool // no reference at all
		err       error
		want      string
		asks      string
	}{
		"none": {want: refused(""),
			asks: "system:node:n1 request-serviceaccounts-token-audience // sa"},
		"of a token":             {audiences: "projected"},
		"of a CSI volume":        {audiences: "csi-2"},
		"of a bound volume":      {audiences: "bound"},
		"of an ephemeral volume": {audiences: "ephemeral"},
		"two":                    {audiences: "projected bound", want: "node may only request 0 or 1 audiences"},
		"by right": {audiences: "right",
			asks: "system:node:n1 request-serviceaccounts-token-audience //right sa"},
		"without": {audiences: "unused", want: refused("unused"),
			asks: "system:node:n1 request-serviceaccounts-token-audience //unused sa"},
		"nobody can say": {audiences: "unused", err: errors.New("down"),
			want: `error authorizing system:node:n1 to request tokens for audience "unused": down`,
			asks: "system:node:n1 request-serviceaccounts-token-audience //unused sa"},
		"by right, beside an error": {audiences: "right", err: errors.New("down"),
			asks: "system:node:n1 request-serviceaccounts-token-audience //right sa"},
		"bound to nobody": {none: true, want: "node requested token not bound to a pod"},
		"to a Secret": {change: func(r *authenticationv1.BoundObjectReference) { r.Kind = "Secret" },
			want: "node requested token not bound to a pod"},
		"of another version": {change: func(r *authenticationv1.BoundObjectReference) { r.APIVersion = "v2" },
			want: "node requested token not bound to a pod"},
		"to a Pod of no name": {change: func(r *authenticationv1.BoundObjectReference) { r.Name = "" },
			want: "node requested token not bound to a pod"},
		"of no UID": {change: func(r *authenticationv1.BoundObjectReference) { r.UID = "" },
			want: "node requested token with a pod binding without a uid"},
		"of old": {change: func(r *authenticationv1.BoundObjectReference) { r.UID = "old" },
			want: "the UID in the bound object reference (old) does not match the UID in record. The object might " +
				"have been deleted and then recreated"},
		"that is gone": {change: func(r *authenticationv1.BoundObjectReference) { r.Name = "no" },
			want: `pods "no" not found`},
	} {
		log := &asked{allows: []string{"right"}, err: c.err}
		pl := plugin(t, "NodeRestriction", objects...)
		pl.(initializer.WantsAuthorizer).SetAuthorizer(log.authorizer())
		bound := ref
		if c.change != nil {
			c.change(&bound)
		}
		req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences:      strings.Fields(c.audiences),
			BoundObjectRef: &bound}}
		if c.none {
			req.Spec.BoundObjectRef = nil
		}
		got := outcome(pl.(admission.MutationInterface).Admit(t.Context(),
			nodeWrite(req, nil, "/serviceaccounts", "token",
				admission.Create, "sa"), nil))
		if c.want == "" && got != "" || !strings.HasSuffix(got, c.want) || strings.Join(log.log, "; ") != c.asks {
			t.Errorf("%s:\n got %s, asked %q\nwant %s, %q", name, got, log.log, c.want, c.asks)
		}
	}
	got := outcome(plugin(t, "NodeRestriction", objects...).(admission.MutationInterface).Admit(t.Context(),
		nodeWrite(p, nil, "/serviceaccounts", "token", admission.Create, "sa"), nil))
	if want := "unexpected type *v1.Pod"; !strings.HasSuffix(got, want) {
		t.Errorf("no token request: got %s, want %s", got, want)
	}
}

// A static Pod that refers to anything is refused, wherever the reference stands.
func TestMirrorPodsReferences(t *testing.T) {
	secret := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	in := func(list *[]corev1.Container, c corev1.Container) { *list = append(*list, c) }
	envFrom := func(e corev1.EnvFromSource) corev1.Container {
		return corev1.Container{EnvFrom: []corev1.EnvFromSource{e}}
	}
	env := func(s *corev1.EnvVarSource) corev1.Container {
		return corev1.Container{Env: []corev1.EnvVar{{Name: "plain"}, {ValueFrom: s}}}
	}
	volume := func(p *corev1.Pod, s corev1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: s})
	}
	projected := func(s corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}, s}}}
	}
	for what, changes := range map[string][]func(*corev1.Pod){
		"": {func(*corev1.Pod) {}, func(p *corev1.Pod) {
			volume(p,
				corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}})
		},
			func(p *corev1.Pod) {
				in(&p.Spec.Containers, env(&corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}))
			},
			func(p *corev1.Pod) {
				volume(p, projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}))
			}},
		"secrets": {
			func(p *corev1.Pod) {
				in(&p.Spec.InitContainers, envFrom(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{
					LocalObjectReference: secret("x")}}))
			},
			func(p *corev1.Pod) {
				in(&p.Spec.Containers, env(&corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}))
			},
			func(p *corev1.Pod) { volume(p, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}) },
			func(p *corev1.Pod) { volume(p, projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}})) },
			func(p *corev1.Pod) {
				volume(p,
					projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}))
			},
			func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{secret("x")} }},
		"configmaps": {
			func(p *corev1.Pod) {
				in(&p.Spec.InitContainers, env(&corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}))
			},
			func(p *corev1.Pod) { volume(p, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}) },
			func(p *corev1.Pod) {
				volume(p, projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}))
			}},
		"persistentvolumeclaims": {
			func(p *corev1.Pod) { volume(p, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}) }},
	} {
		for i, change := range changes {
			p := pod(func(p *corev1.Pod) {
				p.Annotations, p.Spec.NodeName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "n1"
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1-uid",
					Controller: ptr(true), BlockOwnerDeletion: ptr(false)}}
			}, change)
			want := ""
			if what != "" {
				want = `pods "p" is forbidden: node "n1" can not create pods that reference ` + what
			}
			pl := plugin(t, "NodeRestriction", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1-uid"}})
			if got := outcome(pl.(admission.MutationInterface).Admit(t.Context(),
				nodeWrite(p, nil, "/pods", "", admission.Create,
					"p"), nil)); got != want {
				t.Errorf("%s %d: got %s, want %s", what, i, got, want)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*metav1.OwnerReference)
		want   string
	}{
		"another version": {func(o *metav1.OwnerReference) { o.APIVersion = "v2" }, "an owner reference set to itself"},
		"another kind":    {func(o *metav1.OwnerReference) { o.Kind = "Pod" }, "an owner reference set to itself"},
		"another node":    {func(o *metav1.OwnerReference) { o.Name = "n2" }, "an owner reference set to itself"},
		"no controller": {func(o *metav1.OwnerReference) { o.Controller = nil },
			"a controller owner reference set to itself"},
		"none at all": {func(o *metav1.OwnerReference) { o.Controller = ptr(false) },
			"a controller owner reference set to itself"},
	} {
		p := pod(func(p *corev1.Pod) {
			p.Annotations, p.Spec.NodeName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "n1"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1-uid",
				Controller: ptr(true)}}
			c.change(&p.OwnerReferences[0])
		})
		want := `pods "p" is forbidden: node "n1" can only create pods with ` + c.want
		if got := outcome(plugin(t, "NodeRestriction").(admission.MutationInterface).Admit(t.Context(),
			nodeWrite(p, nil, "/pods",
				"", admission.Create, "p"), nil)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// What the API server cannot tell now is its own error, and no refusal.
func TestNodeRestrictionWhenTheAPIFails(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Annotations, p.Spec.NodeName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "n1"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", Controller: ptr(true)}}
	})
	client := fake.NewSimpleClientset()
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("down")
	})
	pl := unplugged(t, "NodeRestriction")
	v := pl.(admission.InitializationValidator)
	if err := v.ValidateInitialization(); outcome(err) != "node restriction: no client or no authorizer" {
		t.Errorf("without anything: got %v", err)
	}
	pl.(initializer.WantsExternalKubeClientSet).SetExternalKubeClientSet(client)
	if v.ValidateInitialization() == nil {
		t.Error("without an authorizer: got none, want an error")
	}
	pl.(initializer.WantsAuthorizer).SetAuthorizer((&asked{}).authorizer())
	if err := v.ValidateInitialization(); err != nil {
		t.Errorf("with both: got %v, want no error", err)
	}
	for name, a := range map[string]admission.Attributes{
		"a mirror Pod": nodeWrite(p, nil, "/pods", "", admission.Create, "p"),
		"a deletion":   nodeWrite(nil, p, "/pods", "", admission.Delete, "p"),
		"a journal": nodeWrite(&journal.PodJournal{Entries: []podjournal.Entry{{Ref: podjournal.Ref{Namespace: "ns",
			Name: "p"}}}},
			nil, journalResource(), "", admission.Create, "p"),
	} {
		if got := outcome(pl.(admission.MutationInterface).Admit(t.Context(), a, nil)); !strings.HasSuffix(got,
			"down") {
			t.Errorf("%s: got %s, want down", name, got)
		}
	}
}
