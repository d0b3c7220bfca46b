package memapi

import (
	"bytes"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patched returns old with the request's patch.
func (s *Server) patched(c *call, kind schema.GroupVersionKind, old runtime.Object) (runtime.Object, error) {
	info, _ := runtime.SerializerInfoForMediaType(s.scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	var was bytes.Buffer
	if err := s.scheme.Codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()).Encode(old, &was); err != nil {
		return nil, err
	}
	var is []byte
	var err error
	switch t := types.PatchType(c.http.Header.Get("Content-Type")); t {
	case types.StrategicMergePatchType:
		var like runtime.Object
		if like, err = s.scheme.Scheme.New(kind); err == nil {
			is, err = strategicpatch.StrategicMergePatch(was.Bytes(), c.body, like)
		}
	case types.MergePatchType:
		is, err = jsonpatch.MergePatch(was.Bytes(), c.body)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(c.body); err == nil {
			is, err = p.Apply(was.Bytes())
		}
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch",
			schema.GroupResource{Group: c.APIGroup, Resource: c.Resource}, c.Name,
			fmt.Sprintf("a simulated cluster takes no patch of type %q", t), 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.decode(is, runtime.ContentTypeJSON, kind, c.storage.New())
}
