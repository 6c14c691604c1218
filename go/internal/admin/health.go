package admin

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	hv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

// healthInterval is how often a watcher of the health service hears of a change.
const healthInterval = time.Second

// health is the standard health service: serving means ready, as /readyz has it.
type health struct {
	hv1.UnimplementedHealthServer
	service *Service
}

func known(name string) bool { return name == "" || name == pb.Admin_ServiceDesc.ServiceName }

func (h *health) state() hv1.HealthCheckResponse_ServingStatus {
	if h.service.o.Facts().Ready {
		return hv1.HealthCheckResponse_SERVING
	}
	return hv1.HealthCheckResponse_NOT_SERVING
}

func (h *health) Check(_ context.Context, r *hv1.HealthCheckRequest) (*hv1.HealthCheckResponse,
	error) {
	if !known(r.GetService()) {
		return nil, status.Errorf(codes.NotFound, "no service %q here", r.GetService())
	}
	return &hv1.HealthCheckResponse{Status: h.state()}, nil
}

func (h *health) List(context.Context, *hv1.HealthListRequest) (*hv1.HealthListResponse, error) {
	line := &hv1.HealthCheckResponse{Status: h.state()}
	return &hv1.HealthListResponse{Statuses: map[string]*hv1.HealthCheckResponse{
		"": line, pb.Admin_ServiceDesc.ServiceName: line,
	}}, nil
}

func (h *health) Watch(r *hv1.HealthCheckRequest,
	stream grpc.ServerStreamingServer[hv1.HealthCheckResponse]) error {
	ctx, done := h.service.streamContext(stream.Context())
	defer done()
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	last := hv1.HealthCheckResponse_UNKNOWN
	for {
		now := hv1.HealthCheckResponse_SERVICE_UNKNOWN
		if known(r.GetService()) {
			now = h.state()
		}
		if now != last {
			last = now
			if err := stream.Send(&hv1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return h.service.streamEnd(stream.Context())
		}
	}
}
