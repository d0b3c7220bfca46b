package scheme

import (
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addEviction lets old clients evict with a policy/v1beta1 body, as upstream does though the
// version is gone otherwise.
func addEviction(s *runtime.Scheme) error {
	s.AddKnownTypes(policyv1beta1.SchemeGroupVersion, &policyv1beta1.Eviction{})
	return s.AddConversionFunc((*policyv1beta1.Eviction)(nil), (*policyv1.Eviction)(nil),
		func(a, b any, _ conversion.Scope) error {
			in, out := a.(*policyv1beta1.Eviction), b.(*policyv1.Eviction)
			out.ObjectMeta, out.DeleteOptions = in.ObjectMeta, in.DeleteOptions
			return nil
		})
}
