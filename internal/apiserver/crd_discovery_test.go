package apiserver

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// shopDefinition returns a definition of the kind Shop in a group of its own.
func shopDefinition(i int) *apiextensionsv1.CustomResourceDefinition {
	group := fmt.Sprintf("discovery%d.example.com", i)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "shops." + group, Labels: map[string]string{"test": "discovery"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "shops", Kind: "Shop"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		},
	}
}

// TestDiscoveryListsEstablishedDefinitions: who sees that a definition is established finds its
// kind in each discovery document at once, however many are made beside it.
func TestDiscoveryListsEstablishedDefinitions(t *testing.T) {
	s, _ := shared(t)
	ext := apiextensions.NewForConfigOrDie(s.InProcess(admin())).ApiextensionsV1().CustomResourceDefinitions()
	w, err := ext.Watch(t.Context(), metav1.ListOptions{LabelSelector: "test=discovery"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	const n = 20
	for i := range n {
		mustCreate[*apiextensionsv1.CustomResourceDefinition](t)(ext.Create(t.Context(), shopDefinition(i),
			metav1.CreateOptions{}))
	}
	defer func() {
		for i := range n {
			if err := ext.Delete(t.Context(), shopDefinition(i).Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}()
	aggregated := discovery.NewDiscoveryClientForConfigOrDie(s.InProcess(admin()))
	legacy := discovery.NewDiscoveryClientForConfigOrDie(s.InProcess(admin()))
	legacy.UseLegacyDiscovery = true
	for seen := map[string]bool{}; len(seen) < n; {
		e, ok := <-w.ResultChan()
		if !ok {
			t.Fatal("the watch ended")
		}
		crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
		if !ok || seen[crd.Name] || !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		seen[crd.Name] = true
		for how, c := range map[string]*discovery.DiscoveryClient{"aggregated": aggregated, "legacy": legacy} {
			checkShopIsListed(t, how, c, crd.Spec.Group)
		}
	}
}

// checkShopIsListed checks the list of groups and the resources of the group's version.
func checkShopIsListed(t *testing.T, how string, c *discovery.DiscoveryClient, group string) {
	t.Helper()
	groups, err := c.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group }) {
		t.Errorf("%s: got groups without %s", how, group)
	}
	l, err := c.ServerResourcesForGroupVersion(group + "/v1")
	if err != nil || len(l.APIResources) != 1 || l.APIResources[0].Kind != "Shop" {
		t.Errorf("%s: resources of %s: got %v, %v; want the kind Shop", how, group, l, err)
	}
}
