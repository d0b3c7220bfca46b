package auth_test

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
)

// A node has tokens for the audiences that volumes and drivers of its Pod ask for, and for those
// that a role lets it ask for, as a credential provider for images needs (KEP-4412): in any
// namespace or for one account.
func TestNodesAskForAudiencesByRight(t *testing.T) {
	t.Parallel()
	s := serve(t, auth.Options{})
	ctx := t.Context()
	admin, agent := s.clientAs(t, master()), s.over(t, s.files.Node) // system:node:n1
	if _, err := admin.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
		Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "of-driver"}},
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := podNamed("puller")
	p.Spec.NodeName = "n1"
	p.Spec.Volumes = []corev1.Volume{
		{Name: "p", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "of-volume", Path: "t"},
			}}}}},
		{Name: "d", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.example.com"}}},
	}
	p = s.pod(t, p)
	ask := func(audiences ...string) error {
		_, err := s.token(t, agent, "default", authenticationv1.TokenRequestSpec{
			Audiences: audiences, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1",
				Name: p.Name, UID: p.UID},
		})
		return err
	}
	for _, audience := range []string{"of-volume", "of-driver"} {
		eventually(t, func() error { return ask(audience) })
	}
	const registry = "https://registry.example.com"
	for want, audiences := range map[string][]string{
		`system:node:n1 is not authorized to request tokens for audience "` + registry + `"`: {registry},
		"node may only request 0 or 1 audiences":                                             {"of-volume", registry},
	} {
		if err := ask(audiences...); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", audiences, err, want)
		}
	}
	allow(t, ctx, s, rbacv1.PolicyRule{Verbs: []string{"request-serviceaccounts-token-audience"},
		APIGroups: []string{""}, Resources: []string{registry}, ResourceNames: []string{"default"}})
	eventually(t, func() error { return ask(registry) })
	if err := ask("vault"); !apierrors.IsForbidden(err) {
		t.Errorf("an audience that no role names: %v", err)
	}
}

// allow gives all nodes a right in all namespaces.
func allow(t *testing.T, ctx context.Context, s *server, rule rbacv1.PolicyRule) {
	t.Helper()
	admin := s.clientAs(t, master()).RbacV1()
	meta := metav1.ObjectMeta{Name: "audiences-of-nodes"}
	if _, err := admin.ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:nodes"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
