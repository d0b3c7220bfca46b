package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// server knows one token, and remembers what it was asked about.
type server struct {
	asked    authorizer.AttributesRecord
	decision authorizer.Decision
	err      error
	answer   authenticator.Response
}

// AuthenticateRequest implements authenticator.Request.
func (s *server) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.Header.Get("Authorization") != "Bearer good" {
		return nil, false, errors.New("unknown token")
	}
	out := s.answer
	if asked, ok := authenticator.AudiencesFrom(r.Context()); ok && out.Audiences != nil {
		out.Audiences = asked.Intersect(out.Audiences)
	}
	return &out, true, nil
}

func (s *server) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s.asked = a.(authorizer.AttributesRecord)
	return s.decision, "because", s.err
}

// RulesFor implements authorizer.RuleResolver.
func (s *server) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"},
			APIGroups: []string{"apps"}, Resources: []string{u.GetName()}, ResourceNames: []string{namespace}}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"},
			NonResourceURLs: []string{"/healthz"}}}, true, s.err
}

var anna = &user.DefaultInfo{Name: "anna", UID: "u1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}

// ask creates a review and returns its status as JSON, or the refusal.
func ask(ctx context.Context, s *server, resource string, review runtime.Object,
	validate rest.ValidateObjectFunc) string {
	gv := authorizationv1.SchemeGroupVersion
	if strings.HasPrefix(resource, "tokenreviews") || resource == "selfsubjectreviews" {
		gv = authenticationv1.SchemeGroupVersion
	}
	d := Deps{Authenticator: s, Authorizer: authorizer.AuthorizerFunc(s.authorize), Resolver: s,
		Audiences: authenticator.Audiences{"api"}}
	if resource == "tokenreviews, no audiences" {
		resource, d.Audiences = "tokenreviews", nil
	}
	out, err := Storages(d)[gv.WithResource(resource)].(rest.Creater).Create(ctx, review, validate, nil)
	if err != nil {
		return err.Error()
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	var got struct{ Status json.RawMessage }
	if err := json.Unmarshal(raw, &got); err != nil {
		return err.Error()
	}
	return string(got.Status)
}

func TestTokenReviews(t *testing.T) {
	token := func(text string, audiences ...string) *authenticationv1.TokenReview {
		return &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: text, Audiences: audiences}}
	}
	const who = `"user":{"username":"anna","uid":"u1","groups":["g"],"extra":{"k":["v"]}}`
	const outside = "Internal error occurred: error validating audiences"
	for _, c := range []struct {
		name, resource string
		review         *authenticationv1.TokenReview
		answer         authenticator.Response
		want           string
	}{
		{"none", "tokenreviews", token(""), authenticator.Response{},
			"token is required for TokenReview in authentication"},
		{"unknown", "tokenreviews", token("bad"), authenticator.Response{}, `{"user":{},"error":"unknown token"}`},
		{"the server's audience", "tokenreviews", token("good"), authenticator.Response{User: anna,
			Audiences: authenticator.Audiences{"api", "other"}}, `{"authenticated":true,` + who +
			`,"audiences":["api"]}`},
		{"an audience of its own", "tokenreviews", token("good", "other"), authenticator.Response{User: anna,
			Audiences: authenticator.Audiences{"api", "other"}}, `{"authenticated":true,` + who +
			`,"audiences":["other"]}`},
		{"another audience", "tokenreviews", token("good", "strange"), authenticator.Response{User: anna,
			Audiences: authenticator.Audiences{"api"}}, outside},
		{"an answer without audiences", "tokenreviews", token("good"), authenticator.Response{User: anna}, outside},
		{"no audiences at all", "tokenreviews, no audiences", token("good"), authenticator.Response{User: anna},
			`{"authenticated":true,` + who + `}`},
		{"nobody", "tokenreviews, no audiences", token("good"), authenticator.Response{},
			`{"authenticated":true,"user":{}}`},
	} {
		s := &server{answer: c.answer}
		if got := ask(t.Context(), s, c.resource, c.review, nil); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Each review: whom it asks about and what it answers.
func TestReviews(t *testing.T) {
	as := request.WithUser(t.Context(), anna)
	plain := request.WithUser(t.Context(), &user.DefaultInfo{Name: "ben"})
	resource := &authorizationv1.ResourceAttributes{Namespace: "ns", Verb: "get", Group: "apps", Version: "v1",
		Resource: "deployments", Subresource: "scale", Name: "d"}
	path := &authorizationv1.NonResourceAttributes{Path: "/healthz", Verb: "get"}
	spec := authorizationv1.SubjectAccessReviewSpec{User: "anna", UID: "u1", Groups: []string{"g"},
		Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}}, ResourceAttributes: resource}
	subject := &authorizationv1.SubjectAccessReview{Spec: spec}
	local := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: spec}
	own := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: path}}
	rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "ns"}}
	const nobody = "no user present on request"
	const allowed, denied = `{"allowed":true,"reason":"because"}`, `{"allowed":false,"denied":true,"reason":"because"}`
	for _, c := range []struct {
		name     string
		ctx      context.Context
		resource string
		review   runtime.Object
		server   server
		want     string
	}{
		{"who am I", as, "selfsubjectreviews", &authenticationv1.SelfSubjectReview{}, server{},
			`{"userInfo":{"username":"anna","uid":"u1","groups":["g"],"extra":{"k":["v"]}}}`},
		{"who am I, less", plain, "selfsubjectreviews", &authenticationv1.SelfSubjectReview{}, server{},
			`{"userInfo":{"username":"ben"}}`},
		{"who am I, nobody", t.Context(), "selfsubjectreviews", &authenticationv1.SelfSubjectReview{}, server{},
			nobody},
		{"allowed", as, "subjectaccessreviews", subject, server{decision: authorizer.DecisionAllow}, allowed},
		{"denied", as, "subjectaccessreviews", subject, server{decision: authorizer.DecisionDeny}, denied},
		{"no opinion, an error", as, "subjectaccessreviews", subject, server{decision: authorizer.DecisionNoOpinion,
			err: errors.New("no")}, `{"allowed":false,"reason":"because","evaluationError":"no"}`},
		{"myself", as, "selfsubjectaccessreviews", own, server{decision: authorizer.DecisionAllow}, allowed},
		{"myself, nobody", t.Context(), "selfsubjectaccessreviews", own, server{}, nobody},
		{"in a namespace", request.WithNamespace(as, "ns"), "localsubjectaccessreviews", local,
			server{decision: authorizer.DecisionAllow}, allowed},
		{"in no namespace", as, "localsubjectaccessreviews", local, server{}, "namespace is required on this type: "},
		{"in another namespace", request.WithNamespace(as, "other"), "localsubjectaccessreviews", local, server{},
			"spec.resourceAttributes.namespace must match namespace: other"},
		{"my rules", as, "selfsubjectrulesreviews", rules, server{err: errors.New("no")},
			`{"resourceRules":[{"verbs":["get"],"apiGroups":["apps"],"resources":["anna"],"resourceNames":["ns"]}],` +
				`"nonResourceRules":[{"verbs":["get"],"nonResourceURLs":["/healthz"]}],"incomplete":true,` +
				`"evaluationError":"no"}`},
		{"my rules, nobody", t.Context(), "selfsubjectrulesreviews", rules, server{}, nobody},
		{"my rules, nowhere", as, "selfsubjectrulesreviews", &authorizationv1.SelfSubjectRulesReview{}, server{},
			"no namespace on request"},
	} {
		if got := ask(c.ctx, &c.server, c.resource, c.review, nil); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
		if strings.HasPrefix(c.want, "{") { // a well formed one may be refused by admission
			no := func(context.Context, runtime.Object) error { return errors.New("not admitted") }
			if got := ask(c.ctx, &c.server, c.resource, c.review, no); got != "not admitted" {
				t.Errorf("%s, not admitted: got %s, want so", c.name, got)
			}
		}
		if got := ask(c.ctx, &c.server, c.resource, &corev1.Pod{}, nil); got !=
			"not the object expected here: *v1.Pod" {
			t.Errorf("%s, another object: got %s, want it refused", c.name, got)
		}
	}
	s := &server{}
	ask(as, s, "subjectaccessreviews", subject, nil)
	const want = "anna u1 [g] map[k:[v]] ns get apps v1 deployments scale d true  "
	if got := attributes(&s.asked); got != want {
		t.Errorf("asked about %q, want %q", got, want)
	}
	ask(plain, s, "selfsubjectaccessreviews", own, nil)
	if got, want := attributes(&s.asked), "ben  [] map[]  get      false /healthz "; got != want {
		t.Errorf("asked about %q, want %q", got, want)
	}
	bare := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{Groups: []string{"g"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list"}}}
	ask(as, s, "subjectaccessreviews", bare, nil)
	if got, want := attributes(&s.asked), "  [g] map[]  list  *    true  "; got != want {
		t.Errorf("asked about %q, want %q", got, want)
	}
}

func attributes(a *authorizer.AttributesRecord) string {
	u := a.User
	return fmt.Sprintf("%s %s %v %v %s %s %s %s %s %s %s %v %s ", u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(),
		a.Namespace, a.Verb, a.APIGroup, a.APIVersion, a.Resource, a.Subresource, a.Name, a.ResourceRequest, a.Path)
}

// What is wrong with a question.
func TestQuestionsThatAreRefused(t *testing.T) {
	resource := authorizationv1.ResourceAttributes{Verb: "get", Namespace: "ns"}
	path := &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"}
	with := func(a authorizationv1.ResourceAttributes) *authorizationv1.SelfSubjectAccessReview {
		return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &a}}
	}
	fields := func(s authorizationv1.FieldSelectorAttributes) *authorizationv1.SelfSubjectAccessReview {
		return with(authorizationv1.ResourceAttributes{Verb: "list", FieldSelector: &s})
	}
	labels := func(s authorizationv1.LabelSelectorAttributes) *authorizationv1.SelfSubjectAccessReview {
		return with(authorizationv1.ResourceAttributes{Verb: "list", LabelSelector: &s})
	}
	named := with(resource)
	named.Name = "x"
	managed := with(resource)
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	type localReview = authorizationv1.LocalSubjectAccessReview
	local := func(namespace string, p *authorizationv1.NonResourceAttributes) *localReview {
		r := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "a", NonResourceAttributes: p}}
		if p == nil {
			r.Spec.ResourceAttributes = &resource
		}
		return r
	}
	const at = "spec.resourceAttributes."
	for _, c := range []struct {
		review runtime.Object
		want   string // the end of the answer; empty: accepted
	}{
		{named, "must be empty"},
		{managed, ""},
		{&authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &resource}},
			`spec.user: Invalid value: "": at least one of user or group must be specified`},
		{local("ns", nil), ""},
		{local("other", nil), at + `namespace: Invalid value: "ns": must match metadata.namespace`},
		{local("ns", path), `spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed on ` +
			`this ` +
			"kind of request"},
		{&authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"},
			Spec: local("ns", nil).Spec}, "must be empty except for namespace"},
		{fields(authorizationv1.FieldSelectorAttributes{}), at + "fieldSelector.requirements: Required value: when " +
			at +
			"fieldSelector is specified, requirements or rawSelector is required"},
		{fields(authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"}), ""},
		{fields(authorizationv1.FieldSelectorAttributes{RawSelector: "a=b",
			Requirements: []metav1.FieldSelectorRequirement{
				{Key: "a", Operator: "In", Values: []string{"b"}}}}), at +
			`fieldSelector.rawSelector: Invalid value: "a=b": ` +
			"may not specified at the same time as requirements"},
		{fields(authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Operator: "In", Values: []string{"b"}}}}), at +
			"fieldSelector.requirements[0].key: Required value: must be specified"},
		{labels(authorizationv1.LabelSelectorAttributes{}), at + "labelSelector.requirements: Required value: when " +
			at +
			"labelSelector is specified, requirements or rawSelector is required"},
		{labels(authorizationv1.LabelSelectorAttributes{RawSelector: "a=b"}), ""},
		{labels(authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: "In"}}}), at + "labelSelector.requirements[0].values: Required value: must be " +
			"specified when `operator` is 'In' or 'NotIn'"},
		{labels(authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: "Strange"}}}), ""},
	} {
		name := map[string]string{"*v1.SubjectAccessReview": "subjectaccessreviews",
			"*v1.SelfSubjectAccessReview":  "selfsubjectaccessreviews",
			"*v1.LocalSubjectAccessReview": "localsubjectaccessreviews"}[fmt.Sprintf("%T", c.review)]
		ctx := request.WithNamespace(request.WithUser(t.Context(), anna), "ns")
		got := ask(ctx, &server{}, name, c.review, nil)
		accepted := strings.HasPrefix(got, "{")
		if accepted != (c.want == "") || !accepted && !strings.HasSuffix(got, c.want) {
			t.Errorf("%+v: got  %s\nwant %s", c.review, got, c.want)
		}
	}
}

// What an authorizer is asked about selectors, and what is told of those that cannot be read.
func TestSelectors(t *testing.T) {
	field := func(raw string, list ...metav1.FieldSelectorRequirement) string {
		r := resourceRecord(anna, &authorizationv1.ResourceAttributes{
			FieldSelector: &authorizationv1.FieldSelectorAttributes{
				RawSelector: raw, Requirements: list}})
		return fmt.Sprintf("%v%v %s", r.FieldSelectorRequirements, r.FieldSelectorParsingErr, evaluationError(nil, &r))
	}
	label := func(raw string, list ...metav1.LabelSelectorRequirement) string {
		r := resourceRecord(anna, &authorizationv1.ResourceAttributes{
			LabelSelector: &authorizationv1.LabelSelectorAttributes{
				RawSelector: raw, Requirements: list}})
		return fmt.Sprintf("%v%v %s", r.LabelSelectorRequirements, r.LabelSelectorParsingErr, evaluationError(nil, &r))
	}
	const ignored, partly = " spec.resourceAttributes.%sSelector ignored due to parse error",
		" spec.resourceAttributes.%sSelector partially ignored due to parse error"
	in := metav1.FieldSelectorRequirement{Key: "a", Operator: metav1.FieldSelectorOpIn, Values: []string{"b"}}
	of := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	for _, c := range []struct{ got, want string }{
		{field("a=b"), "[{= a b}]<nil> "},
		{field("a"), `[]invalid selector: 'a'; can't understand 'a'` + fmt.Sprintf(ignored, "field")},
		{field("", in), "[{= a b}]<nil> "},
		{field("", in, metav1.FieldSelectorRequirement{Key: "c", Operator: metav1.FieldSelectorOpNotIn,
			Values: []string{"d"}}), "[{= a b} {!= c d}]<nil> "},
		{field("", in, metav1.FieldSelectorRequirement{Key: "c", Operator: metav1.FieldSelectorOpIn,
			Values: []string{"d", "e"}}), "[{= a b}]field selectors must have exactly one value: 2" +
			fmt.Sprintf(partly,
				"field")},
		{field("", metav1.FieldSelectorRequirement{Key: "c", Operator: "Strange", Values: []string{"d"}}),
			`[]"Strange" is not a valid field selector operator` + fmt.Sprintf(ignored, "field")},
		{label("a=b"), "a=b<nil> "},
		{label("=b"), "found '=', expected: !, identifier, or 'end of string'" + fmt.Sprintf(ignored, "label")},
		{label("", of("a", "In", "b"), of("a", "NotIn", "b"), of("a", "Exists"), of("a", "DoesNotExist")),
			"a in (b), a notin (b), a, !a<nil> "},
		{label("", of("a", "In", "b"), of("a", "Strange")),
			`a in (b)"Strange" is not a valid label selector operator` +
				fmt.Sprintf(partly, "label")},
		{label("", of("a", "Exists", "b")), "values: Invalid value: [\"b\"]: values set must be empty for exists " +
			"and does not exist" + fmt.Sprintf(ignored, "label")},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}

// The endpoints' names and objects.
func TestStorages(t *testing.T) {
	authn, authz := authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion
	want := map[schema.GroupVersionResource]string{
		authn.WithResource("tokenreviews"):              "tokenreview *v1.TokenReview false",
		authn.WithResource("selfsubjectreviews"):        "selfsubjectreview *v1.SelfSubjectReview false",
		authz.WithResource("subjectaccessreviews"):      "subjectaccessreview *v1.SubjectAccessReview false",
		authz.WithResource("selfsubjectaccessreviews"):  "selfsubjectaccessreview *v1.SelfSubjectAccessReview false",
		authz.WithResource("localsubjectaccessreviews"): "localsubjectaccessreview *v1.LocalSubjectAccessReview true",
		authz.WithResource("selfsubjectrulesreviews"):   "selfsubjectrulesreview *v1.SelfSubjectRulesReview false",
	}
	all := Storages(Deps{})
	if len(all) != len(want) {
		t.Errorf("got %d endpoints, want %d", len(all), len(want))
	}
	for r, s := range all {
		got := fmt.Sprintf("%s %T %v", s.(rest.SingularNameProvider).GetSingularName(), s.New(),
			s.(rest.Scoper).NamespaceScoped())
		if got != want[r] {
			t.Errorf("%s: got %q, want %q", r, got, want[r])
		}
	}
}
