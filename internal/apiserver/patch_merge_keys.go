package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// isUncomparablePanic reports whether a panic comes from comparing two slices or maps.
func isUncomparablePanic(p any) bool {
	text := fmt.Sprint(p)
	return strings.Contains(text, "comparing uncomparable type") || strings.Contains(text, "hash of unhashable type")
}

// withMergeKeyCheck answers 400 to strategic merge patches that have a list or an object as a merge
// key: the library compares them and panics (500 upstream).
func (b *builder) withMergeKeyCheck(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPatch || !strings.HasPrefix(req.Header.Get("Content-Type"),
			string(types.StrategicMergePatchType)) {
			next.ServeHTTP(w, req)
			return
		}
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if !isUncomparablePanic(p) {
				panic(p)
			}
			var gv schema.GroupVersion
			if info, ok := request.RequestInfoFrom(req.Context()); ok {
				gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			}
			err := apierrors.NewBadRequest("the patch has a list or an object where the merge key of a list needs a " +
				"plain value")
			responsewriters.ErrorNegotiated(err, b.scheme.Codecs, gv, w, req)
		}()
		next.ServeHTTP(w, req)
	})
}
