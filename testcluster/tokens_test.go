package testcluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/testcluster"
)

// Controllers of what people made by hand, through the API.
func TestControllersOfTokensPoliciesAndGroups(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithFeatures(features.Features{GenericWorkload: true}))
	ctx := within(t, 5*time.Minute)
	t.Run("a Secret has a token as long as its account lives", func(t *testing.T) {
		tokenOfASecret(&atWork{t, c, ctx})
	})
	t.Run("the types of a policy are checked", func(t *testing.T) { typesOfAPolicy(&atWork{t, c, ctx}) })
	t.Run("a PodGroup stays while Pods of it run", func(t *testing.T) { groupStays(&atWork{t, c, ctx}) })
}

func tokenOfASecret(w *atWork) {
	core := w.c.Client.CoreV1()
	secrets, accounts := core.Secrets("default"), core.ServiceAccounts("default")
	account, err := accounts.Create(w.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		Secrets: []corev1.ObjectReference{{Name: "generated"}}}, metav1.CreateOptions{})
	w.must(err)
	create := func(name string, annotations map[string]string) {
		w.Helper()
		_, err := secrets.Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: annotations}, Type: corev1.SecretTypeServiceAccountToken}, metav1.CreateOptions{})
		w.must(err)
	}
	gone := func(name string) {
		w.Helper()
		w.until("the end of Secret "+name, func() bool {
			_, err := secrets.Get(w.ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	mine := map[string]string{corev1.ServiceAccountNameKey: "robot"}
	create("robot-token", mine)
	create("generated", mine)
	create("of-nobody", map[string]string{corev1.ServiceAccountNameKey: "nobody"})
	create("of-another", map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "other"})
	gone("of-nobody")
	gone("of-another")
	var s *corev1.Secret
	w.until("the token", func() bool {
		s, err = secrets.Get(w.ctx, "robot-token", metav1.GetOptions{})
		w.must(err)
		return len(s.Data[corev1.ServiceAccountTokenKey]) > 0
	})
	if got := s.Annotations[corev1.ServiceAccountUIDKey]; got != string(account.UID) {
		w.Errorf("got uid annotation %q, want %q", got, account.UID)
	}
	if string(s.Data["namespace"]) != "default" || !strings.Contains(string(s.Data["ca.crt"]), "BEGIN CERTIFICATE") {
		w.Errorf("got namespace %q and ca.crt %q", s.Data["namespace"], s.Data["ca.crt"])
	}
	review := func() *authenticationv1.TokenReview {
		w.Helper()
		r, err := w.c.Client.AuthenticationV1().TokenReviews().Create(w.ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: string(s.Data["token"])}}, metav1.CreateOptions{})
		w.must(err)
		return r
	}
	if r := review(); !r.Status.Authenticated || r.Status.User.Username != "system:serviceaccount:default:robot" {
		w.Errorf("got %+v, want the account authenticated", r.Status)
	}
	s, err = secrets.Get(w.ctx, "robot-token", metav1.GetOptions{})
	w.must(err)
	if day := s.Labels["kubernetes.io/legacy-token-last-used"]; day != time.Now().UTC().Format(time.DateOnly) {
		w.Errorf("got last use %q, want today", day)
	}
	w.must(secrets.Delete(w.ctx, "generated", metav1.DeleteOptions{}))
	w.until("the account without the reference", func() bool {
		a, err := accounts.Get(w.ctx, "robot", metav1.GetOptions{})
		w.must(err)
		return len(a.Secrets) == 0
	})
	// one that somebody filled by hand says no uid
	_, err = secrets.Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Annotations: mine},
		Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte("t"),
			"namespace": []byte("default"), "ca.crt": s.Data["ca.crt"]}}, metav1.CreateOptions{})
	w.must(err)
	w.must(accounts.Delete(w.ctx, "robot", metav1.DeleteOptions{}))
	gone("robot-token")
	gone("by-hand")
}

func typesOfAPolicy(w *atWork) {
	policies := w.c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	fail := admissionv1.Fail
	_, err := policies.Create(w.ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{"CREATE"},
					Rule: admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"},
						Resources: []string{"deployments"}}}}}},
			Validations: []admissionv1.Validation{{Expression: "object.spec.replicas <= 5"},
				{Expression: "object.spec.replicaz <= 5", MessageExpression: "'has ' + object.spec.replicas"}}}},
		metav1.CreateOptions{})
	w.must(err)
	var p *admissionv1.ValidatingAdmissionPolicy
	status := func(generation int64) string {
		w.Helper()
		w.until(fmt.Sprintf("the check of generation %d", generation), func() bool {
			p, err = policies.Get(w.ctx, "few", metav1.GetOptions{})
			w.must(err)
			return p.Status.ObservedGeneration == generation
		})
		var out []string
		if t := p.Status.TypeChecking; t != nil {
			for _, e := range t.ExpressionWarnings {
				out = append(out, e.FieldRef+": "+e.Warning)
			}
		}
		return strings.Join(out, "\n")
	}
	got := status(1)
	for _, want := range []string{
		"spec.validations[1].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'",
		"spec.validations[1].messageExpression: apps/v1, Kind=Deployment: ERROR: <input>:1:8: found no matching " +
			"overload for '_+_' applied to '(string, int)'",
	} {
		if !strings.Contains(got, want) {
			w.Errorf("got %q, want %q", got, want)
		}
	}
	if strings.Contains(got, "validations[0]") {
		w.Errorf("got %q, want no warning of the first", got)
	}
	p.Spec.Validations = p.Spec.Validations[:1]
	_, err = policies.Update(w.ctx, p, metav1.UpdateOptions{})
	w.must(err)
	if got := status(2); got != "" {
		w.Errorf("got %q, want no warning", got)
	}
	w.must(policies.Delete(w.ctx, "few", metav1.DeleteOptions{}))
}

func groupStays(w *atWork) {
	groups := w.c.Client.SchedulingV1beta1().PodGroups("default")
	g, err := groups.Create(w.ctx, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "crew"},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}}}, metav1.CreateOptions{})
	w.must(err)
	if !slices.Contains(g.Finalizers, "scheduling.k8s.io/podgroup-protection") {
		w.Fatalf("got finalizers %q", g.Finalizers)
	}
	name := "crew"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one-of-crew"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)), SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &name},
		Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}}
	_, err = w.c.Client.CoreV1().Pods("default").Create(w.ctx, p, metav1.CreateOptions{})
	w.must(err)
	w.until("the Pod", func() bool { return w.get(p.Name).Status.Phase == corev1.PodRunning })
	w.must(groups.Delete(w.ctx, name, metav1.DeleteOptions{}))
	g, err = groups.Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	if g.DeletionTimestamp == nil {
		w.Error("got a group that is not being deleted")
	}
	w.must(w.c.Client.CoreV1().Pods("default").Delete(w.ctx, p.Name, metav1.DeleteOptions{}))
	w.until("the end of the group", func() bool {
		_, err := groups.Get(w.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
