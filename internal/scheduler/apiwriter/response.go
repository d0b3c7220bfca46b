package apiwriter

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufMagic begins objects in protobuf (k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
var protobufMagic = []byte("k8s\x00")

// Object is what the API knows in protobuf.
type Object interface {
	runtime.Object
	Marshal() ([]byte, error)
}

// Encode writes an object of a kind as the API server takes it.
func Encode(of schema.GroupVersionKind, o Object) ([]byte, error) {
	raw, err := o.Marshal()
	if err != nil {
		return nil, fmt.Errorf("%s as protobuf: %w", of.Kind, err)
	}
	whole := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: of.GroupVersion().String(), Kind: of.Kind},
		Raw: raw}
	out := make([]byte, len(protobufMagic)+whole.Size())
	copy(out, protobufMagic)
	if _, err := whole.MarshalTo(out[len(protobufMagic):]); err != nil {
		return nil, fmt.Errorf("%s as protobuf: %w", of.Kind, err)
	}
	return out, nil
}

// Err is nil for an answer that is a success, else an error as the ordinary client gives it
// (apierrors).
func (a Response) Err() error {
	if a.Code >= http.StatusOK && a.Code < http.StatusMultipleChoices {
		return nil
	}
	if body, ok := bytes.CutPrefix(a.Body, protobufMagic); ok {
		var whole runtime.Unknown
		var status metav1.Status
		if whole.Unmarshal(body) == nil && whole.Kind == "Status" && status.Unmarshal(whole.Raw) == nil &&
			status.Status != metav1.StatusSuccess {
			return &apierrors.StatusError{ErrStatus: status}
		}
	}
	after, _ := strconv.Atoi(a.RetryAfter) // none: 0
	return apierrors.NewGenericServerResponse(a.Code, a.method, schema.GroupResource{}, "",
		string(a.Body[:min(len(a.Body), 1024)]), after, true)
}

// RetryDelay is how long the API server asks to wait before the call is made again; 0 when it does
// not.
func (a Response) RetryDelay() time.Duration {
	if a.Code != http.StatusTooManyRequests && a.Code < http.StatusInternalServerError {
		return 0
	}
	seconds, _ := strconv.Atoi(a.RetryAfter) // none: 0
	return time.Duration(seconds) * time.Second
}
