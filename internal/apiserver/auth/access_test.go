package auth_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/pki"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
)

// clientAs makes a client of an identity without network.
func (s *server) clientAs(t testing.TB, u user.Info) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.InProcess(u))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *server) named(t testing.TB, name string, groups ...string) kubernetes.Interface {
	return s.clientAs(t, &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)})
}

// over makes a client over TLS with a certificate.
func (s *server) over(t testing.TB, p pki.Pair) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + s.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAFile: s.files.CA.Cert,
			CertFile: p.Cert, KeyFile: p.Key},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request over TLS without certificate.
func (s *server) ask(t testing.TB, method, path, bearer, body string) (int, string) {
	t.Helper()
	ca, err := os.ReadFile(s.files.CA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.Addr().String()+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func (s *server) account(t testing.TB, namespace, name string) {
	t.Helper()
	c := s.clientAs(t, master())
	_, err := c.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func podNamed(name string) *corev1.Pod {
	return wrappers.MakePod().Name(name).Container("c", "nginx:1.27").Obj()
}

func (s *server) pod(t testing.TB, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	s.account(t, "default", "default")
	out, err := s.clientAs(t, master()).CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually polls until f is nil; informers see writes with a delay.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	expect.EventuallyNoError(t, "what informers have to see first", f)
}

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// row: OPS-11
func TestAuthenticationAndAuthorization(t *testing.T) {
	s := serve(t, auth.Options{})
	t.Logf("ready in %v", s.took)
	for name, test := range map[string]func(*testing.T, *server){
		"certificates": certificates, "anonymous": anonymous, "reviews": reviews, "tokens": tokensLife,
		"scheduler": scheduler,
		"node":      nodeAgent, "escalation": escalation, "escalate and bind": escalateAndBind, "audiences": audiences,
		"dry run of a token": dryToken, "sums": aggregatedRoles, "stories": journalReading,
		"defaults of Pods": podDefaults, "discovery of keys": discovery,
		"hostile": hostile,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// row: SEC-08
func certificates(t *testing.T, s *server) {
	me, err := s.over(t, s.files.Admin).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if u := me.Status.UserInfo; u.Username != "kubernetes-admin" ||
		strings.Join(u.Groups, ",") != "system:masters,system:authenticated" {
		t.Errorf("admin is %+v", u)
	}
	if _, err := s.over(t, s.files.Scheduler).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	foreign, err := pki.Ensure(t.TempDir(), pki.Options{NodeName: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.over(t, foreign.Admin).CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a certificate of another authority: %v", err)
	}
	res, err := http.Get("http://" + s.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: got %d, want 400", res.StatusCode)
	}
}

// row: OPS-11
func anonymous(t *testing.T, s *server) {
	if code, body := s.ask(t, "GET", "/metrics", "admin-token", ""); code != 200 ||
		!strings.Contains(body, "\napiserver_request_total{") {
		t.Errorf("/metrics as an administrator: %d %.300s, want 200 and a sample of apiserver_request_total", code,
			body)
	}
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 401, "/api": 401,
		"/metrics": 401, "/api/v1/pods": 401} {
		if code, _ := s.ask(t, "GET", path, "", ""); code != want {
			t.Errorf("%s without credentials: %d, want %d", path, code, want)
		}
	}
	if code, _ := s.ask(t, "POST", "/healthz", "", ""); code != 403 {
		t.Errorf("POST of /healthz: got code %d, want 403", code)
	}
	if code, _ := s.ask(t, "GET", "/healthz", "nobody", ""); code != 401 {
		t.Errorf("a wrong token on a health path: %d, want 401", code)
	}
	if code, body := s.ask(t, "GET", "/api/v1/nodes", "alice-token", ""); code != 403 ||
		!strings.Contains(body,
			`nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster `+
				`scope`) {
		t.Errorf(`got %d %s, want code 403 and body with "nodes is forbidden: User alice"`,
			code, body)
	}
}

// row: API-47
func reviews(t *testing.T, s *server) {
	c := s.clientAs(t, master())
	r, err := c.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "alice-token"}},
		metav1.CreateOptions{})
	if err != nil || !r.Status.Authenticated || r.Status.User.Username != "alice" ||
		strings.Join(r.Status.User.Groups, ",") != "dev,test,system:authenticated" {
		t.Errorf(`got %+v, %v, want no error, Authenticated true, Username alice and r.Status.User.Groups "dev,test,`+
			`system:authenticated"`, r, err)
	}
	r, err = c.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "nope"}}, metav1.CreateOptions{})
	if err != nil || r.Status.Authenticated || r.Status.Error != "invalid bearer token" {
		t.Errorf(`got %+v, %v, want no error, Authenticated false and Error "invalid bearer token"`, r, err)
	}
	may := func(u string, groups []string, a authorizationv1.ResourceAttributes) bool {
		t.Helper()
		r, err := c.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: u, Groups: groups, ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Allowed
	}
	proxy := authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes", Subresource: "proxy", Name: "n1"}
	for _, c := range []struct {
		user   string
		groups []string
		want   bool
	}{{"kube-apiserver-kubelet-client", nil, true}, {"bob", nil, false}, {"x", []string{"system:masters"}, true}} {
		if got := may(c.user, c.groups, proxy); got != c.want {
			t.Errorf("may %s, of the groups %v, reach kubelets: got %v, want %v", c.user, c.groups, got, c.want)
		}
	}
	rules, err := s.named(t, "zoe").AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
		}, metav1.CreateOptions{})
	if err != nil || len(rules.Status.ResourceRules) != 2 || len(rules.Status.NonResourceRules) != 2 {
		t.Errorf("got %+v, %v, want no error, 2 in ResourceRules and len 2", rules, err)
	}
}

func (s *server) token(t testing.TB, c kubernetes.Interface, account string,
	spec authenticationv1.TokenRequestSpec) (string, error) {
	t.Helper()
	r, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return r.Status.Token, nil
}

// row: API-49
func tokensLife(t *testing.T, s *server) {
	p := s.pod(t, podNamed("tokens"))
	c := s.clientAs(t, master())
	raw, err := s.token(t, c,
		"default", authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod",
			APIVersion: "v1", Name: p.Name, UID: p.UID}})
	if err != nil {
		t.Fatal(err)
	}
	const who = `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`
	code, body := s.ask(t, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", raw, who)
	for _, want := range []string{`"system:serviceaccount:default:default"`, `"system:serviceaccounts:default"`,
		`"authentication.kubernetes.io/pod-name":["tokens"]`, string(p.UID)} {
		if !strings.Contains(body, want) {
			t.Errorf("%d: %s lacks %s", code, body, want)
		}
	}
	second, err := s.token(t, c,
		"default", authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod",
			APIVersion: "v1", Name: p.Name}})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	if err := c.CoreV1().Pods("default").Delete(t.Context(), p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	if code, body := s.ask(t, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", second, who); code != 401 {
		t.Errorf("the token of a deleted Pod: got %d %s, want 401", code, body)
	}
}

// row: BND-09
func scheduler(t *testing.T, s *server) {
	p := s.pod(t, podNamed("bnd"))
	c := s.named(t, user.KubeScheduler)
	patch := []byte(`{"spec":{"containers":[{"name":"c","image":"other"}]}}`)
	if _, err := c.CoreV1().Pods("default").Patch(t.Context(), p.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the scheduler patches an image: got %v, want it forbidden", err)
	}
	changed := p.DeepCopy()
	changed.Spec.Containers[0].Image = "other"
	if _, err := c.CoreV1().Pods("default").Update(t.Context(), changed,
		metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the scheduler updates an image: got %v, want it forbidden", err)
	}
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n9"}}
	if err := c.CoreV1().Pods("default").Bind(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Errorf("the scheduler binds: %v", err)
	}
}

func nodeAgent(t *testing.T, s *server) {
	ctx := t.Context()
	admin, agent := s.clientAs(t, master()), s.over(t, s.files.Node) // system:node:n1
	for _, name := range []string{"needed", "other"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := agent.CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1",
			Labels: map[string]string{"kubernetes.io/hostname": "n1"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "node.kubernetes.io/not-ready" {
		t.Errorf("taints of a new node: got %v, want one of them and [0].Key node.kubernetes.io/not-ready",
			n.Spec.Taints)
	}
	p := podNamed("on-n1")
	p.Spec.NodeName = "n1"
	p.Spec.Volumes = []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "needed"}}}}
	p = s.pod(t, p)
	if _, err := agent.CoreV1().Secrets("default").Get(ctx, "needed", metav1.GetOptions{}); err != nil {
		t.Errorf("a Secret its Pod mounts, asked for at once: %v", err)
	}
	bound := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID}
	if _, err := s.token(t, agent, "default", authenticationv1.TokenRequestSpec{BoundObjectRef: bound}); err != nil {
		t.Errorf("the token of its Pod: %v", err)
	}
	refused := map[string]func() error{
		"no relationship found between node 'n1' and this object": func() error {
			_, err := agent.CoreV1().Secrets("default").Get(ctx, "other", metav1.GetOptions{})
			return err
		},
		`node "n1" is not allowed to modify node "n2"`: func() error {
			_, err := agent.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
				metav1.CreateOptions{})
			return err
		},
		`node "n1" is not allowed to modify taints`: func() error {
			_, err := agent.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType, []byte(`{"spec":{"taints":null}}`),
				metav1.PatchOptions{})
			return err
		},
		`is not allowed to modify labels: node-role.kubernetes.io/control-plane`: func() error {
			_, err := agent.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`), metav1.PatchOptions{})
			return err
		},
		"node requested token not bound to a pod": func() error {
			_, err := s.token(t, agent, "default", authenticationv1.TokenRequestSpec{})
			return err
		},
		`is not authorized to request tokens for audience "vault"`: func() error {
			_, err := s.token(t, agent, "default", authenticationv1.TokenRequestSpec{BoundObjectRef: bound,
				Audiences: []string{"vault"}})
			return err
		},
		`can only create mirror pods`: func() error {
			_, err := agent.CoreV1().Pods("default").Create(ctx, podNamed("own"), metav1.CreateOptions{})
			return err
		},
		"can only list/watch pods with spec.nodeName field selector": func() error {
			_, err := agent.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		},
	}
	for want, do := range refused {
		if err := do(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := agent.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}); err != nil {
		t.Error(err)
	}
}

func escalation(t *testing.T, s *server) {
	ctx := t.Context()
	admin, eve := s.clientAs(t, master()), s.named(t, "eve")
	_, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "eve"},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"create", "update"}, APIGroups: []string{rbacv1.GroupName},
				Resources: []string{"roles", "rolebindings"}},
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eve"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "eve"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, verb string) error {
		_, err := eve.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""},
				Resources: []string{"configmaps"}}},
		}, metav1.CreateOptions{})
		return err
	}
	eventually(t, func() error { return write("same", "get") })
	want := `roles.rbac.authorization.k8s.io "more" is forbidden: user "eve" (groups=["system:authenticated"]) is ` +
		`attempting to grant RBAC permissions not currently held:` +
		"\n" + `{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}`
	if err := write("more", "delete"); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	own, err := admin.RbacV1().Roles("default").Get(ctx, "eve", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own.Rules[1].Verbs = []string{"*"}
	if _, err := eve.RbacV1().Roles("default").Update(ctx, own, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("eve widened her own role: %v", err)
	}
	_, err = eve.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "up"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(),
		"attempting to grant RBAC permissions not currently held") {
		t.Errorf("eve bound cluster-admin: %v", err)
	}
}

// escalateAndBind: who may "escalate" writes roles with more than they hold, who may "bind" binds a
// role they do not hold, each for the names they were given, and a role that is a sum of others is
// written by who holds everything.
func escalateAndBind(t *testing.T, s *server) {
	ctx := t.Context()
	admin, may := s.clientAs(t, master()), []string{"create", "update", "patch"}
	for name, more := range map[string]rbacv1.PolicyRule{
		"plain": {Verbs: []string{"get"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}},
		"raiser": {Verbs: []string{"escalate"}, APIGroups: []string{rbacv1.GroupName},
			Resources: []string{"clusterroles"}, ResourceNames: []string{"raised"}},
		"binder": {Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"},
			ResourceNames: []string{"view"}},
		"both": {Verbs: []string{"bind", "escalate"}, APIGroups: []string{rbacv1.GroupName},
			Resources: []string{"clusterroles", "roles"}},
	} {
		rules := []rbacv1.PolicyRule{more, {Verbs: may, APIGroups: []string{rbacv1.GroupName},
			Resources: []string{"clusterroles", "clusterrolebindings", "rolebindings"}}}
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: name}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			_, err := s.named(t, name).RbacV1().ClusterRoles().Create(ctx,
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, dry)
			return err
		})
	}
	role := func(name string, sum *rbacv1.AggregationRule,
		rules ...rbacv1.PolicyRule) func(kubernetes.Interface) error {
		return func(c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Create(ctx,
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules, AggregationRule: sum}, dry)
			return err
		}
	}
	raise := func(name string) func(kubernetes.Interface) error {
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return func(c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Patch(ctx, name, types.MergePatchType,
				[]byte(`{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`),
				metav1.PatchOptions{DryRun: dry.DryRun})
			return err
		}
	}
	binding := func(to string) func(kubernetes.Interface) error {
		return func(c kubernetes.Interface) error {
			_, err := c.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: to},
				Subjects: []rbacv1.Subject{{Kind: "User", Name: "zoe"}},
			}, dry)
			return err
		}
	}
	secrets := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	sum := &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
	const grant = "is attempting to grant RBAC permissions not currently held"
	for name, c := range map[string]struct {
		do      func(kubernetes.Interface) error
		refused map[string]string // all others may
	}{
		"raise":         {raise("raised"), map[string]string{"plain": grant, "binder": grant}},
		"raise another": {raise("other"), map[string]string{"plain": grant, "binder": grant, "raiser": grant}},
		// a creation names nothing
		"make one": {role("new", nil, secrets), map[string]string{"plain": grant, "binder": grant,
			"raiser": grant}},
		"bind":         {binding("view"), map[string]string{"plain": grant, "raiser": grant}},
		"bind another": {binding("edit"), map[string]string{"plain": grant, "raiser": grant, "binder": grant}},
		"bind what is not": {binding("nothing"),
			map[string]string{"plain": `rolebindings.rbac.authorization.k8s.io "nothing" not found`,
				"raiser": "not found", "binder": "not found"}},
		"a sum of other roles": {role("sum", sum),
			map[string]string{"plain": "must have cluster-admin privileges to use the aggregationRule",
				"binder": "cluster-admin", "raiser": "cluster-admin"}},
	} {
		for _, who := range []string{"plain", "raiser", "binder", "both"} {
			err, want := c.do(s.named(t, who)), c.refused[who]
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s by %s: %v, want %q", name, who, err, want)
			}
		}
	}
}

// dryToken: a dry run of a token request is validated and answered as upstream does it, with a
// token, and leaves the account as it is.
func dryToken(t *testing.T, s *server) {
	accounts := s.clientAs(t, master()).CoreV1().ServiceAccounts("default")
	account, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "dry"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ask := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: account.UID},
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))}}
	got, err := accounts.CreateToken(t.Context(), "dry", ask, dry)
	if err != nil || got.Status.Token == "" || got.UID != account.UID || got.Name != "dry" ||
		got.Namespace != "default" {
		t.Errorf("answered %+v, %v", got, err)
	}
	for want, wrong := range map[string]*authenticationv1.TokenRequest{
		"may not specify a duration less than 10 minutes": {
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(5))}},
		"does not match the UID of the service account": {ObjectMeta: metav1.ObjectMeta{UID: "old"}},
		"cannot bind token to object of type /v1, Kind=Foo": {
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Foo", Name: "x"}}},
	} {
		if _, err := accounts.CreateToken(t.Context(), "dry", wrong, dry); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := accounts.CreateToken(t.Context(), "dry", ask,
		metav1.CreateOptions{DryRun: []string{"some"}}); !apierrors.IsInvalid(err) {
		t.Errorf("a dry run of part of the stages: %v", err)
	}
	if now, err := accounts.Get(t.Context(), "dry", metav1.GetOptions{}); err != nil ||
		now.ResourceVersion != account.ResourceVersion {
		t.Errorf("the account was written: %+v, %v", now, err)
	}
}

// audiences: a review says which of the audiences asked for a token is good for, and refuses a
// token that is good for none.
func audiences(t *testing.T, s *server) {
	c := s.clientAs(t, master())
	s.account(t, "default", "default")
	raw, err := s.token(t, c, "default", authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "bank"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ask  []string
		want string // the audiences in common, or the error
	}{
		{[]string{"vault"}, "vault"}, {[]string{"mint", "bank", "vault"}, "bank,vault"}, {[]string{"mint"}, ""},
		{nil, ""},
	} {
		r, err := c.AuthenticationV1().TokenReviews().Create(t.Context(),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: raw, Audiences: tt.ask}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(slices.Sorted(slices.Values(r.Status.Audiences)), ",")
		if r.Status.Authenticated != (tt.want != "") || got != tt.want ||
			(tt.want == "") != strings.Contains(r.Status.Error, "invalid for the target audience") {
			t.Errorf("for %v: %+v, want %q", tt.ask, r.Status, tt.want)
		}
	}
}

// journalReading may be read by who may read the Pod, and written by components.
func journalReading(t *testing.T, s *server) {
	for who, want := range map[string]string{"zoe": "false false", user.KubeScheduler: "true true",
		"system:serviceaccount:kube-system:job-controller": "false false"} {
		answer := ""
		for _, verb := range []string{"get", "create"} {
			r, err := s.named(t, who).AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Verb: verb, Group: "journal.gantry.dev", Resource: "podjournals", Namespace: "default",
							Name: "p",
						}},
				}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			answer += fmt.Sprint(" ", r.Status.Allowed)
		}
		if answer[1:] != want {
			t.Errorf("%s may get and create: %s, want %s", who, answer[1:], want)
		}
	}
}

// aggregatedRoles are there from the start, also on a server without controllers.
func aggregatedRoles(t *testing.T, s *server) {
	for name, most := range map[string]int{"view": 40, "edit": 80, "admin": 90} {
		r, err := s.clientAs(t, master()).RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(r.Rules) < 10 || len(r.Rules) > most || r.AggregationRule == nil {
			t.Errorf("%s: got %+v, %v, want no error, at least 10 in Rules, at most %v in Rules and set "+
				"AggregationRule", name, r, err, most)
		}
	}
}

// row: API-38
// row: API-39
func podDefaults(t *testing.T, s *server) {
	ctx, admin := t.Context(), s.clientAs(t, master())
	p := podNamed("defaults")
	p.Spec.PriorityClassName = "system-node-critical"
	p = s.pod(t, p)
	if p.Spec.Priority == nil || *p.Spec.Priority != 2000001000 {
		t.Errorf("priority %v", p.Spec.Priority)
	}
	if len(p.Spec.Tolerations) != 2 || *p.Spec.Tolerations[0].TolerationSeconds != 300 ||
		p.Spec.Tolerations[0].Key != "node.kubernetes.io/not-ready" ||
		p.Spec.Tolerations[1].Key != "node.kubernetes.io/unreachable" ||
		p.Spec.Tolerations[1].Effect != corev1.TaintEffectNoExecute {
		t.Errorf("tolerations %v", p.Spec.Tolerations)
	}
	if p.Spec.ServiceAccountName != "default" || len(p.Spec.Volumes) != 1 || !strings.HasPrefix(p.Spec.Volumes[0].Name,
		"kube-api-access-") ||
		p.Spec.Containers[0].VolumeMounts[0].MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" {
		t.Errorf("identity %+v", p.Spec)
	}
	q := podNamed("unknown-class")
	q.Spec.PriorityClassName = "nope"
	_, err := admin.CoreV1().Pods("default").Create(ctx, q, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no PriorityClass with name nope was found") {
		t.Errorf("error %v", err)
	}
	never := corev1.PreemptNever
	if _, err := admin.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "calm"}, Value: 7, PreemptionPolicy: &never, GlobalDefault: true,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		p, err := admin.CoreV1().Pods("default").Create(ctx, podNamed("by-default"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && (p.Spec.PriorityClassName != "calm" || *p.Spec.Priority != 7 ||
			*p.Spec.PreemptionPolicy != never) {
			err = apierrors.NewBadRequest("the default class is not taken")
		}
		return err
	})
}

func discovery(t *testing.T, s *server) {
	for _, path := range []string{"/.well-known/openid-configuration", "/openid/v1/jwks"} {
		if code, _ := s.ask(t, "GET", path, "alice-token", ""); code != 403 {
			t.Errorf("%s as alice: %d, want 403", path, code)
		}
		if code, body := s.ask(t, "GET", path, "admin-token", ""); code != 200 || !strings.Contains(body, "ES256") {
			t.Errorf("%s: got %d %s, want code 200 and body with ES256", path, code, body)
		}
	}
	_, doc := s.ask(t, "GET", "/openapi/v2", "admin-token", "")
	for _, want := range []string{
		`"/.well-known/openid-configuration/":{"get":{"description":"get service account issuer OpenID configuration,` +
			` also known as the 'OIDC discovery doc'"`,
		`"operationId":"getServiceAccountIssuerOpenIDKeyset"`,
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("the OpenAPI document lacks %s", want)
		}
	}
}

// hostile sends what no client would.
func hostile(t *testing.T, s *server) {
	for _, tok := range []string{"..", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", strings.Repeat("x", 60000)} {
		if code, _ := s.ask(t, "GET", "/api", tok, ""); code != 401 && code != 431 {
			t.Errorf("token %.20q: %d", tok, code)
		}
	}
	for _, body := range []string{"", "null", "[]", "{}", `{"spec":null}`, `{"kind":"Pod","apiVersion":"v1"}`,
		string(bytes.Repeat([]byte("["), 5000))} {
		for _, path := range []string{
			"/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
			"/api/v1/namespaces/default/serviceaccounts/default/token",
		} {
			if code, out := s.ask(t, "POST", path, "admin-token", body); code >= 500 {
				t.Errorf("%s %.20q: got %d %s, want code below 500", path, body, code, out)
			}
		}
	}
}

func TestAnonymousAsUpstream(t *testing.T) {
	s := serve(t, auth.Options{Anonymous: true})
	for path, want := range map[string]int{"/version": 200, "/api": 403, "/healthz": 200} {
		if code, _ := s.ask(t, "GET", path, "", ""); code != want {
			t.Errorf("%s without credentials: %d, want %d", path, code, want)
		}
	}
	if err := context.Cause(t.Context()); err != nil {
		t.Fatal(err)
	}
}
