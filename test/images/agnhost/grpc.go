package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// grpcHealth serves gRPC's health protocol on --port and, on --http-port, /make-serving and
// /make-not-serving.
func grpcHealth(args []string) int {
	f := flag.NewFlagSet("grpc-health-checking", flag.ExitOnError)
	port := f.Int("port", 5000, "")
	httpPort := f.Int("http-port", 8080, "")
	service := f.String("service", "", "")
	_ = f.Parse(args)
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", *port))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h := health.NewServer()
	set := func(s healthpb.HealthCheckResponse_ServingStatus) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			h.SetServingStatus("", s)
			h.SetServingStatus(*service, s)
		}
	}
	set(healthpb.HealthCheckResponse_SERVING)(nil, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/make-serving", set(healthpb.HealthCheckResponse_SERVING))
	mux.HandleFunc("/make-not-serving", set(healthpb.HealthCheckResponse_NOT_SERVING))
	go listen(fmt.Sprintf(":%d", *httpPort), mux)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, h)
	fmt.Println("listening on", l.Addr())
	if err := server.Serve(l); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}
