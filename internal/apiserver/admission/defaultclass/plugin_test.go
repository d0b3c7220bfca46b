package defaultclass_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultclass"
)

// classes are a lister of one default class, or one that fails.
type classes struct{ err error }

// List implements defaultclass.Lister.
func (c classes) List(labels.Selector) ([]*storagev1.StorageClass, error) {
	return []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "fast",
		Annotations: map[string]string{"mark": "true"}}}}, c.err
}

// plugin returns a plugin over claims with its informer, which syncs when it is run.
func plugin(c classes) (*defaultclass.Plugin[*storagev1.StorageClass], informers.SharedInformerFactory) {
	p := defaultclass.NewPlugin(defaultclass.Rule[*storagev1.StorageClass]{
		NoInformer: "no informer of classes",
		Classes: func(f informers.SharedInformerFactory) (defaultclass.Lister[*storagev1.StorageClass],
			cache.SharedIndexInformer) {
			return c, f.Storage().V1().StorageClasses().Informer()
		},
		ClassName: func(o runtime.Object) **string {
			claim, ok := o.(*v1.PersistentVolumeClaim)
			if !ok || claim.Spec.StorageClassName != nil {
				return nil
			}
			return &claim.Spec.StorageClassName
		},
		Annotations: []string{"mark"},
	})
	return p, informers.NewSharedInformerFactory(fake.NewClientset(), 0)
}

// admit has a plugin admit the creation of an object and returns the class that a claim has then.
func admit(p *defaultclass.Plugin[*storagev1.StorageClass], o runtime.Object, sub string) (string, error) {
	err := p.Admit(nil, admission.NewAttributesRecord(o, nil, schema.GroupVersionKind{Kind: "Claim"}, "ns", "c",
		schema.GroupVersionResource{Resource: "claims"}, sub, admission.Create, nil, false, nil), nil)
	claim, ok := o.(*v1.PersistentVolumeClaim)
	if !ok || claim.Spec.StorageClassName == nil {
		return "", err
	}
	return *claim.Spec.StorageClassName, err
}

func TestAClassIsGiven(t *testing.T) {
	p, f := plugin(classes{})
	p.SetExternalKubeInformerFactory(f)
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	named := "slow"
	for name, c := range map[string]struct {
		object    runtime.Object
		sub, want string
	}{
		"no class": {&v1.PersistentVolumeClaim{}, "", "fast"},
		"a class": {&v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &named}}, "",
			"slow"},
		"a subresource": {&v1.PersistentVolumeClaim{}, "status", ""},
		"another kind":  {&v1.Pod{}, "", ""},
	} {
		if got, err := admit(p, c.object, c.sub); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	if got, want := []bool{
		p.Handles(admission.Create), p.Handles(admission.Update),
	}, []bool{true, false}; !slices.Equal(got, want) {
		t.Errorf("it handles updates or no creations, want creations alone: got %v, want %v", got, want)
	}
}

func TestNoClassWithoutClasses(t *testing.T) {
	p, f := plugin(classes{err: errors.New("no such list")})
	if err := p.ValidateInitialization(); err == nil || err.Error() != "no informer of classes" {
		t.Errorf("without informers: got %v, want the rule's error", err)
	}
	p.SetExternalKubeInformerFactory(f)
	if err := p.ValidateInitialization(); err != nil {
		t.Errorf("with informers: got %v, want none", err)
	}
	synctest.Test(t, func(t *testing.T) {
		// waits for the informer, which does not run, as long as the library does
		start := time.Now()
		if _, err := admit(p, &v1.PersistentVolumeClaim{}, ""); err == nil || !strings.Contains(err.Error(),
			"not yet ready to handle request") {
			t.Errorf("before the classes are known: got %v after %v, want a refusal", err, time.Since(start))
		}
		if _, err := admit(p, &v1.Pod{}, ""); err != nil {
			t.Errorf("another kind before the classes are known: got %v, want none", err)
		}
	})
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	if got, err := admit(p, &v1.PersistentVolumeClaim{}, ""); err == nil || !strings.Contains(err.Error(),
		"no such list") || got != "" {
		t.Errorf("a list that fails: got %q, %v, want a refusal that says so", got, err)
	}
}
